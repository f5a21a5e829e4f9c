"""The site's Dask clusters, for the service whose users start them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need, pods_peer

if TYPE_CHECKING:
    from strata.catalogue.service import Secrets, ServiceContext
    from strata.models.site import Site


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
        server = _server(context.site)
        return {} if server is None else {self.token_key: server.hub_token(context.secrets)}

    def provide(self, context: ServiceContext[Any]) -> DaskServer | None:
        """The gateway; None where no service of the site has Dask clusters."""
        return _server(context.site)


@dataclass(frozen=True)
class DaskHub:
    """The hub whose users have clusters, for the gateway.

    Args:
        url: of its API, for pods.
        pods: peer of NetworkPolicies.
        port: TCP port of them.
        users: tenants of users who are in none.
        servers: peer: the users' servers.
    """

    url: str
    pods: Mapping[str, Any]
    port: int
    users: Mapping[str, str]
    servers: Mapping[str, Any]


def dask_hub(site: Site) -> DaskHub | None:
    """The first service of the site that needs Dask clusters."""
    from strata.catalogue.site import needed

    for service, need in needed(site, DaskClusters):
        namespace = service.namespace_of(site)
        url = f"http://{need.hub_service}.{namespace}.svc:{need.hub_port}/hub/api"
        tenants = site.platform.tenants
        users = {need.user: tenants[0].name} if tenants else {}
        return DaskHub(url, _peer(namespace, need.hub), need.hub_port, users, _peer(namespace, need.servers))
    return None


def _peer(namespace: str, label: str) -> dict[str, Any]:
    return pods_peer(namespace, dict([label.split("=", 1)]))


def _server(site: Site) -> DaskServer | None:
    from strata.catalogue.site import dask_server

    return dask_server(site)
