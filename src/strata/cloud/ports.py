"""TCP ports of the roles, and who may reach them: what the security groups are generated from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from strata.cloud.security_group import Ingress, SecurityGroupArgs
from strata.inventory import clients as users
from strata.inventory import ports
from strata.models import Site
from strata.models.cloud import Cloud

EVERY_HOST = "nodes"
"""The group of every instance; as a client, every host of the site."""
KUBERNETES_ROLES = ("kube_control_plane", "kube_node")


@dataclass(frozen=True)
class Port:
    """A port that a role listens on.

    Args:
        name: of the rules.
        number: port; None for all.
        clients: roles whose hosts may reach it; EVERY_HOST for all of them.
        access: key of `access:` whose networks may reach it too.
        protocol: None for any.
    """

    name: str
    number: int | None
    clients: tuple[str, ...] = ()
    access: str | None = None
    protocol: str | None = "tcp"


# Nodes forward packets to each other's pods, with pods' addresses or their own; a security group cannot tell these from
# packets to the node itself. What pods may not reach on nodes and hosts is refused by the role pod_network.
_CLUSTER = Port("cluster", None, KUBERNETES_ROLES, protocol=None)

ROLE_PORTS: Mapping[str, tuple[Port, ...]] = {
    EVERY_HOST: (Port("ssh", ports.SSH, access="ssh"), Port("ping", None, (EVERY_HOST,), "ssh", protocol="icmp")),
    "nfs_server": (Port("nfs", ports.NFS, users.NFS_ROLES),),
    "postgresql": (Port("postgresql", ports.POSTGRESQL, users.DATABASE_ROLES),),
    "kine": (Port("kine", ports.DATASTORE, ("kube_control_plane",)),),
    "registry": (
        Port("registry", ports.REGISTRY, KUBERNETES_ROLES, "registry"),
        Port("registry-push", ports.REGISTRY_PUSH, access="registry"),
    ),
    "load_balancer": (
        Port("http", ports.HTTP, (EVERY_HOST,), "https"),
        Port("https", ports.HTTPS, (EVERY_HOST,), "https"),
    ),
    "kube_control_plane": (_CLUSTER, Port("kubernetes-api", ports.KUBERNETES_API, access="kubernetes_api")),
    "kube_node": (
        _CLUSTER,
        Port("ingress", ports.INGRESS, ("load_balancer",)),
    ),
}
"""What each role answers, and to whom; every other port of an instance is closed."""


def security_group_arguments(site: Site, cloud: Cloud) -> dict[str, SecurityGroupArgs]:
    """The group of every instance, `nodes`, and one for each role that listens or connects to one that does."""
    used = {role for instance in cloud.instances for role in instance.roles} | {EVERY_HOST}
    clients = {client for role in used & set(ROLE_PORTS) for port in ROLE_PORTS[role] for client in port.clients}
    versions = sorted({network.cidr.version for network in cloud.networks})
    groups = {}
    for role in sorted(used & (set(ROLE_PORTS) | clients), key=lambda role: (role != EVERY_HOST, role)):
        rules = [rule for port in ROLE_PORTS.get(role, ()) for rule in _rules(site, used, versions, port)]
        what = "Every instance" if role == EVERY_HOST else f"Instances with the role {role}"
        groups[role] = SecurityGroupArgs(f"{site.name}-{role.replace('_', '-')}", what, tuple(rules))
    return groups


def _rules(site: Site, used: set[str], versions: Sequence[int], port: Port) -> Iterator[Ingress]:
    for client in port.clients:
        if client in used:
            for version in versions:
                suffix = "-ipv6" if version == 6 else ""
                name, protocol = f"{port.name}-{client}{suffix}", _protocol(port, version)
                yield Ingress(name, None, protocol, port.number, client, version)
    for network in dict.fromkeys(_networks(site, port)):
        name = f"{port.name}-{str(network).replace('/', '-').replace(':', '-')}"
        protocol = _protocol(port, network.version)
        yield Ingress(name, str(network), protocol, port.number, version=network.version)


def _protocol(port: Port, version: int) -> str | None:
    return "ipv6-icmp" if port.protocol == "icmp" and version == 6 else port.protocol


def _networks(site: Site, port: Port) -> Iterator[IPv4Network | IPv6Network]:
    """Those that are no instances, and so in no group."""
    for machine in site.hosts.machines:
        if EVERY_HOST in port.clients or set(port.clients) & set(machine.roles):
            yield ip_network(machine.address)
    if port.access is not None:
        yield from getattr(site.access, port.access)
    if port.name == "nfs" and site.hosts.nfs is not None:
        for export in site.hosts.nfs.exports:
            yield from export.clients
    if port == _CLUSTER and site.cluster is not None:
        yield site.cluster.pod_network
