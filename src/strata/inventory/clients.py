"""Who may use the services of hosts: what roles, security groups, checks and tests share."""

from __future__ import annotations

from collections.abc import Mapping

from strata.catalogue.needs.database import KINE_DATABASE, Database
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE
from strata.catalogue.site_services import needed
from strata.inventory.topology import host_networks_with
from strata.models.site import Site
from strata.roles import DATABASE_PODS, MONITORING_PODS, PODS, clients_of, roles
from strata.site.host_list import conditions, replicated_postgresql
from strata.site.outputs import CloudOutputs

OPERATOR = "operator"
"""User of the registry that pushes and deletes; the deployment host."""
OPERATOR_SECRET = "registry_operator_password"  # noqa: S105  # its name
NODES = "nodes"
"""User of the registry for the container runtime of every node; it only pulls."""
NODES_SECRET = "registry_nodes_password"  # noqa: S105  # its name

NFS_ROLES = clients_of("nfs_server")
"""Roles whose hosts mount the exports; pods have theirs mounted by their nodes."""
SERVICE_ROLES = ("kube_node",)
"""Roles whose hosts run pods of services; these reach the database with their node's address."""
HOST_SERVICES_LABEL = "strata.dev/host-services=admitted"
"""Of a namespace of the operator's own, whose pods may reach what is for some namespaces only."""


def pod_services(site: Site) -> Mapping[str, Mapping[int, tuple[str, ...] | None]]:
    """TCP ports of hosts that pods may reach, by role, with the namespaces of these pods; None for all.

    Nodes refuse every other. Network policies restrict further.
    """
    met = conditions(site)
    databases = tuple(sorted({service.namespace_of(site) for service, _ in needed(site, Database)}))
    namespaces = {PODS: None, DATABASE_PODS: databases, MONITORING_PODS: (MONITORING_NAMESPACE,)}
    services = {
        name: {port: own for client, own in namespaces.items() for port in role.ports_for(client, met)}
        for name, role in roles().items()
    }
    return {name: ports for name, ports in services.items() if ports}


def pull_users(site: Site) -> dict[str, str]:
    """User of the registry to the name of the secret with its password."""
    robots = {f"robot-{name}": f"registry_robot_{name}_password" for name in site.hosts.registry.robots}
    return {NODES: NODES_SECRET, **robots}


def database_clients(database: str, site: Site, outputs: CloudOutputs | None) -> list[str]:
    """Networks (CIDR) from which a database's owner may log in: kine's hosts, or nodes and pods.

    Of several servers, it is the load balancer that connects. Addresses do not identify namespaces, because
    pods' packets leave a node with the node's: nodes decide which namespaces reach the server (`pod_services`).
    """
    if replicated_postgresql(site):
        return host_networks_with(("load_balancer",), site, outputs)
    if database == KINE_DATABASE:
        return host_networks_with(("kine",), site, outputs)
    pods = [str(site.cluster.pod_network)] if site.cluster else []
    return [*host_networks_with(SERVICE_ROLES, site, outputs), *pods]
