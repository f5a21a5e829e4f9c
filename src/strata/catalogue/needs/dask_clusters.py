"""The site's Dask clusters, for the service whose users start them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import Secrets, ServiceContext
from strata.catalogue.site_services import dask_server


@dataclass(frozen=True)
class DaskServer:
    """A gateway to Dask clusters.

    Args:
        url: for pods.
        public_url: for browsers, where clusters' dashboards are.
        pods: peer of NetworkPolicies: its pods.
        port: TCP port of them.
        name: of the gateway as a service of JupyterHub.
        hub_token: makes its token there.
    """

    url: str
    public_url: str
    pods: Mapping[str, Any]
    port: int
    name: str
    hub_token: Callable[[Secrets], str]


@dataclass(frozen=True)
class DaskClusters(Need[DaskServer | None]):
    """Dask clusters for the users of a JupyterHub; at sites without them, nothing.

    Args:
        user: of the checks; it is in no tenant, and has clusters in the first.
        token_key: of the gateway's token in the hub's Secret.
        servers: label of the users' servers, "component=singleuser-server".
        hub: label of the hub's pods.
        hub_port: TCP port of them.
        hub_service: name of the Service in front of them, with the same port.
    """

    user: str
    token_key: str
    servers: str
    hub: str
    hub_port: int
    hub_service: str

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The gateway's token."""
        server = dask_server(context.site)
        return {} if server is None else {self.token_key: server.hub_token(context.secrets)}

    def provide(self, context: ServiceContext[Any]) -> DaskServer | None:
        """The gateway; None where no service of the site has Dask clusters."""
        return dask_server(context.site)
