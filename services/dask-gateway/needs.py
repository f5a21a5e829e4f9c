"""What Dask clusters need from the platform."""

from __future__ import annotations

from typing import Any

from strata.catalogue.need import pods_peer
from strata.catalogue.needs import Hostname, Namespace, Need, Priority, Secret, TenantNamespaces
from strata.catalogue.needs.dask_clusters import DaskServer
from strata.catalogue.service import ServiceContext, Values
from strata.models.platform import Tenant
from strata.models.site import Site
from strata_services.dask_gateway.settings import DaskGateway

NAME, PORT = "dask-gateway", 8000
NAMESPACE = Namespace(NAME, pod_security="restricted")
HOSTNAME = Hostname(
    "dask",
    "/api/health",
    title="Dask clusters",
    summary="Workers on several nodes for the notebook that starts them.",
    command="cluster = dask_gateway.Gateway().new_cluster()",
)
"""Of its own: users' code answers below it, and would act as whoever opens a page on the hub's host."""
HUB_TOKEN = Secret("dask_gateway_hub_token", "hub-token")
PRIORITY = Priority("platform")
SCHEDULER_PRIORITY = Priority("interactive")
"""A notebook would lose all its results with it."""
WORKER_PRIORITY = Priority("batch")
"""Notebooks preempt workers; Dask computes what these had again, on others."""


def tenant_values(context: ServiceContext[DaskGateway], tenant: Tenant) -> Values:  # noqa: ARG001  # of all alike
    """Values of helm/dask-tenant."""
    return {"gateway": {"namespace": NAMESPACE.name, "name": NAME}}


TENANTS = TenantNamespaces("dask-tenant", tenant_values)


def needs(settings: DaskGateway) -> tuple[Need[Any], ...]:  # noqa: ARG001  # the same for all settings
    """A namespace, a name, the rights in tenants' namespaces, priorities, the token at the hub."""
    return NAMESPACE, HOSTNAME, TENANTS, HUB_TOKEN, PRIORITY, SCHEDULER_PRIORITY, WORKER_PRIORITY


def dask_server(site: Site) -> DaskServer:
    """The gateway, for the hub."""
    return DaskServer(
        url=f"http://{NAME}.{NAMESPACE.name}.svc:{PORT}",
        public_url=f"https://{HOSTNAME.host(site)}",
        pods=pods_peer(NAMESPACE.name, {"app.kubernetes.io/name": NAME}),
        port=PORT,
        name=NAME,
        hub_token=lambda secrets: secrets.get(HUB_TOKEN.name, HUB_TOKEN.make),
    )
