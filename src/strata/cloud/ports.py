"""Security groups, generated from the ports of the roles and who may connect to them (role.yaml)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from strata.cloud.security_group import Ingress, SecurityGroupArgs
from strata.models import Site
from strata.models.cloud import Cloud
from strata.roles import HOSTS, KUBERNETES_ROLES, NODES, PODS, roles

EVERY_HOST = "nodes"
"""The group of every instance; as a client, every host of the site."""


@dataclass(frozen=True)
class Opening:
    """What the members of a group accept, and from whom.

    Args:
        name: of the rules.
        port: number; None for all.
        clients: groups whose members may connect.
        access: key of `access:` whose networks may connect too.
        protocol: None for any.
        last: last port of a range.
    """

    name: str
    port: int | None
    clients: tuple[str, ...] = ()
    access: str | None = None
    protocol: str | None = "tcp"
    last: int | None = None


PING = Opening("ping", None, (EVERY_HOST,), "ssh", protocol="icmp")
# Nodes forward packets to each other's pods, with pods' addresses or their own; a security group cannot tell these from
# packets to the node itself. What pods may not reach on nodes and hosts is refused by the role pod_network.
CLUSTER = Opening("cluster", None, KUBERNETES_ROLES, protocol=None)


def openings() -> Mapping[str, tuple[Opening, ...]]:
    """Group to what its members accept: the ports of the roles, ping, and everything between nodes."""
    found: dict[str, list[Opening]] = {EVERY_HOST: [], **{name: [CLUSTER] for name in KUBERNETES_ROLES}}
    groups = {HOSTS: (EVERY_HOST,), NODES: KUBERNETES_ROLES, PODS: ()}
    for name, role in roles().items():
        # a security group's name comes from the role in site.yaml that brings this one along
        servers = role.runs_on if isinstance(role.runs_on, tuple) else (EVERY_HOST if role.runs_on == "all" else name,)
        for server, port in itertools.product(servers, role.ports):
            covered = KUBERNETES_ROLES if server in KUBERNETES_ROLES else ()
            clients = (own for client in port.clients for own in groups.get(client, (client,)))
            remaining = tuple(client for client in dict.fromkeys(clients) if client not in covered)
            if remaining or port.access:
                found.setdefault(server, []).append(
                    Opening(port.name, port.port, remaining, port.access, last=port.last)
                )
    found[EVERY_HOST].append(PING)
    return {group: tuple(own) for group, own in found.items()}


def security_group_arguments(site: Site, cloud: Cloud) -> dict[str, SecurityGroupArgs]:
    """The group of every instance, `nodes`, and one for each role that listens or connects to one that does."""
    used = {role for instance in cloud.instances for role in instance.roles} | {EVERY_HOST}
    accepted = openings()
    clients = {client for role in used & set(accepted) for opening in accepted[role] for client in opening.clients}
    versions = sorted({network.cidr.version for network in cloud.networks})
    groups = {}
    for role in sorted(used & (set(accepted) | clients), key=lambda role: (role != EVERY_HOST, role)):
        rules = [rule for opening in accepted.get(role, ()) for rule in _rules(site, used, versions, opening)]
        what = "Every instance" if role == EVERY_HOST else f"Instances with the role {role}"
        groups[role] = SecurityGroupArgs(f"{site.name}-{role.replace('_', '-')}", what, tuple(rules))
    return groups


def _rules(site: Site, used: set[str], versions: Sequence[int], opening: Opening) -> Iterator[Ingress]:
    for client in opening.clients:
        if client in used:
            for version in versions:
                suffix = "-ipv6" if version == 6 else ""
                name, protocol = f"{opening.name}-{client}{suffix}", _protocol(opening, version)
                yield Ingress(name, None, protocol, opening.port, client, version, opening.last)
    for network in dict.fromkeys(_networks(site, opening)):
        name = f"{opening.name}-{str(network).replace('/', '-').replace(':', '-')}"
        protocol = _protocol(opening, network.version)
        yield Ingress(name, str(network), protocol, opening.port, None, network.version, opening.last)


def _protocol(opening: Opening, version: int) -> str | None:
    return "ipv6-icmp" if opening.protocol == "icmp" and version == 6 else opening.protocol


def _networks(site: Site, opening: Opening) -> Iterator[IPv4Network | IPv6Network]:
    """Those that are no instances, and so in no group."""
    for machine in site.hosts.machines:
        if EVERY_HOST in opening.clients or set(opening.clients) & set(machine.roles):
            yield ip_network(machine.address)
    if opening.access is not None:
        yield from getattr(site.access, opening.access)
    if opening.name == "nfs" and site.hosts.nfs is not None:
        for export in site.hosts.nfs.exports:
            yield from export.clients
    if opening == CLUSTER and site.cluster is not None:
        yield site.cluster.pod_network
