"""What hosts accept and from whom, made from the ports of the roles (role.yaml): for security groups and firewalls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network

from strata.models.site import Site
from strata.roles import HOSTS, KUBERNETES_ROLES, NODES, POD_CLIENTS, roles
from strata.site.host_list import LOAD_BALANCER, conditions

EVERY_HOST = "nodes"
"""The group of every host; as a client, every host of the site."""
BASTION = "bastion"
"""The group of the host through which SSH reaches all others, where there is one."""


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
# Nodes forward packets to each other's pods, with pods' addresses or their own; a security group cannot distinguish
# these from packets to the node itself. What pods may not reach on nodes and hosts is refused by the role pod_network.
CLUSTER = Opening("cluster", None, KUBERNETES_ROLES, protocol=None)
VRRP = Opening("vrrp", None, (LOAD_BALANCER,), protocol="vrrp")
"""By which load balancers agree on the one with the virtual address."""


def openings(site: Site) -> Mapping[str, tuple[Opening, ...]]:
    """Group to what its members accept: the ports of the roles, ping, VRRP, and everything between nodes."""
    by_group: dict[str, list[Opening]] = {EVERY_HOST: [], **{name: [CLUSTER] for name in KUBERNETES_ROLES}}
    groups = {HOSTS: (EVERY_HOST,), NODES: KUBERNETES_ROLES, **dict.fromkeys(POD_CLIENTS, ())}
    met = (None, *conditions(site))
    for name, role in roles().items():
        if role.when not in met:
            continue
        # a security group's name comes from the role in site.yaml that brings this one along
        servers = role.runs_on if isinstance(role.runs_on, tuple) else (EVERY_HOST if role.runs_on == "all" else name,)
        ports = [port for port in role.ports if port.when in met]
        for server, port in itertools.product(servers, ports):
            covered = KUBERNETES_ROLES if server in KUBERNETES_ROLES else ()
            clients = (own for client in port.clients for own in groups.get(client, (client,)))
            remaining = tuple(client for client in dict.fromkeys(clients) if client not in covered)
            if remaining or port.access:
                by_group.setdefault(server, []).append(
                    Opening(port.name, port.port, remaining, port.access, last=port.last)
                )
    if "virtual_address" in met:
        by_group[LOAD_BALANCER].append(VRRP)
    by_group[EVERY_HOST].append(PING)
    return {group: tuple(own) for group, own in by_group.items()}


def behind_bastion(
    accepted: Mapping[str, tuple[Opening, ...]],
) -> tuple[dict[str, tuple[Opening, ...]], tuple[Opening, ...]]:
    """What hosts accept where SSH from outside ends at a bastion, and what the bastion accepts besides."""

    def through(opening: Opening) -> Opening:
        if opening.access != "ssh":
            return opening
        clients = opening.clients if EVERY_HOST in opening.clients else (*opening.clients, BASTION)
        return replace(opening, clients=clients, access=None)

    outside = tuple(replace(o, clients=()) for own in accepted.values() for o in own if o.access == "ssh")
    return {group: tuple(through(o) for o in own) for group, own in accepted.items()}, outside


def networks_of(site: Site, opening: Opening) -> Iterator[IPv4Network | IPv6Network]:
    """Networks that may connect beside the hosts among the opening's clients."""
    if opening.access is not None:
        yield from getattr(site.access, opening.access)
    if opening.name == "nfs" and site.hosts.nfs is not None:
        for export in site.hosts.nfs.exports:
            yield from export.clients
    if opening == CLUSTER and site.cluster is not None:
        yield site.cluster.pod_network
