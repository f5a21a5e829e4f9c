"""What the services of one site need, all together: for the parts of the platform that provide it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need, pods_peer
from strata.catalogue.needs.audience import Audience
from strata.catalogue.needs.batch_queue import TENANT_LABEL, BatchQueue
from strata.catalogue.needs.bucket import TenantBuckets
from strata.catalogue.needs.client import Client
from strata.catalogue.needs.dask_clusters import DaskClusters
from strata.catalogue.needs.database import KINE_DATABASE, Database
from strata.catalogue.needs.hostname import INGRESS_NAMESPACE
from strata.catalogue.needs.hugging_face import HuggingFace
from strata.catalogue.needs.metrics_query import MetricsQuery
from strata.catalogue.needs.model_endpoint import ModelEndpoints
from strata.catalogue.needs.namespace import Namespace
from strata.catalogue.needs.tenant_quota import TenantQuota
from strata.catalogue.service import Values
from strata.catalogue.site_services import installed, needed
from strata.models.site import Site


def databases(site: Site) -> tuple[str, ...]:
    """Databases of a site: those that it names, those that its services need, and its cluster's datastore."""
    named = tuple(site.hosts.postgresql.databases) if site.hosts.postgresql else ()
    kine = (KINE_DATABASE,) if site.cluster is not None and site.cluster.datastore == "kine" else ()
    return tuple(dict.fromkeys((*named, *(need.name for _, need in needed(site, Database)), *kine)))


def namespaces(site: Site) -> tuple[Namespace, ...]:
    """Namespaces of the site's services, by name."""
    return tuple(sorted({need for _, need in needed(site, Namespace)}, key=lambda need: (need.name, need.pod_security)))


def scraped_namespaces(site: Site) -> list[str]:
    """Namespaces whose pods are scraped: those of the platform. A tenant's pods cannot write the site's metrics."""
    return sorted({INGRESS_NAMESPACE, *(service.namespace_of(site) for service in installed(site))})


def audiences(site: Site) -> tuple[str, ...]:
    """The audiences of the site's services."""
    return tuple(dict.fromkeys(need.name for _, need in needed(site, Audience)))


def token_audiences(site: Site, client: Client) -> tuple[str, ...]:
    """What a client's tokens are for."""
    return audiences(site) if client.all_audiences else client.audiences


def job_images(site: Site) -> dict[str, str]:
    """Images that services have for jobs: short names in the site's registry, by the name that jobs give."""
    return {name: f"{service.name}-{name}" for service, need in needed(site, BatchQueue) for name in need.images}


def reservation_accounts(site: Site) -> Iterator[Values]:
    """Service accounts that make reservations, as subjects of a RoleBinding."""
    for _, need in needed(site, TenantQuota):
        yield {"kind": "ServiceAccount", "name": need.account, "namespace": need.namespace}


def bucket_clients(site: Site, tenant: str) -> list[dict[str, Any]]:
    """Peers of NetworkPolicies: the pods of services that reach a tenant's bucket."""
    return [need.peer(service.namespace_of(site), tenant) for service, need in needed(site, TenantBuckets)]


def schedd_clients(site: Site) -> dict[str, list[dict[str, Any]]]:
    """Peers of NetworkPolicies, by tenant: the pods that reach the tenant's schedd."""
    by_tenant: dict[str, list[dict[str, Any]]] = {tenant.name: [] for tenant in site.platform.tenants}
    for service, need in needed(site, BatchQueue):
        namespace = service.namespace_of(site)
        for index, (tenant, peers) in enumerate(by_tenant.items()):
            own = () if need.monitor else need.pods
            peers += [pods_peer(namespace, {**_labels(label), TENANT_LABEL: tenant}) for label in own]
            if index == 0:
                peers += [pods_peer(namespace, _labels(label)) for label in need.first_tenant_pods]
    return by_tenant


def queue_clients(site: Site) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Peers of NetworkPolicies: the pods that read all queues, and those that request users' tokens."""
    clients: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for service, need in needed(site, BatchQueue):
        for peers, labels in zip(clients, (need.pods if need.monitor else (), need.token_pods), strict=True):
            peers += [pods_peer(service.namespace_of(site), _labels(label)) for label in labels]
    return clients


def hub_clients(site: Site) -> list[dict[str, Any]]:
    """Peers of NetworkPolicies: pods of services that need the mirror, except those in tenants' namespaces."""
    return [
        pods_peer(need.namespace or service.namespace_of(site), _labels(need.pods))
        for service, need in needed(site, HuggingFace)
        if need.pods
    ]


def query_clients(site: Site) -> list[dict[str, Any]]:
    """Peers of a NetworkPolicy: the pods that query the site's metrics."""
    return _pods_of(site, MetricsQuery)


def endpoint_clients(site: Site) -> list[dict[str, Any]]:
    """Peers of a NetworkPolicy: the pods of services that ask the site's models."""
    return _pods_of(site, ModelEndpoints)


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
    for service, need in needed(site, DaskClusters):
        namespace = service.namespace_of(site)
        url = f"http://{need.hub_service}.{namespace}.svc:{need.hub_port}/hub/api"
        tenants = site.platform.tenants
        users = {need.user: tenants[0].name} if tenants else {}
        hub, servers = (pods_peer(namespace, _labels(label)) for label in (need.hub, need.servers))
        return DaskHub(url, hub, need.hub_port, users, servers)
    return None


def _pods_of(site: Site, need: type[Need[Any]]) -> list[dict[str, Any]]:
    """Peers: the pods that carry the name of a service with such a need."""
    return [
        pods_peer(service.namespace_of(site), {"app.kubernetes.io/name": service.name})
        for service, _ in needed(site, need)
    ]


def _labels(text: str) -> dict[str, str]:
    """Of a selector, "component=hub"."""
    name, _, value = text.partition("=")
    return {name: value}
