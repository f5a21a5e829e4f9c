"""Security groups, generated from the ports of the roles and who may connect to them (role.yaml)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network

from strata.cloud.security_group import Ingress, SecurityGroupArgs
from strata.models.cloud import Cloud
from strata.models.site import Site
from strata.site.openings import BASTION, EVERY_HOST, Opening, behind_bastion, networks_of, openings


def security_group_arguments(site: Site, cloud: Cloud) -> dict[str, SecurityGroupArgs]:
    """The group of every instance, `nodes`, and one for each role that listens or connects to one that does."""
    used = {role for instance in cloud.instances for role in instance.roles} | {EVERY_HOST}
    accepted = dict(openings(site))
    if site.hosts.bastion is not None:
        accepted, outside = behind_bastion(accepted)
        if site.hosts.bastion in {instance.name for instance in cloud.instances}:
            used.add(BASTION)
            accepted[BASTION] = outside
    clients = {client for role in used & set(accepted) for opening in accepted[role] for client in opening.clients}
    versions = sorted({network.cidr.version for network in cloud.networks} | {6 for n in cloud.networks if n.ipv6})
    groups = {}
    for role in sorted(used & (set(accepted) | clients), key=lambda role: (role != EVERY_HOST, role)):
        rules = [rule for opening in accepted.get(role, ()) for rule in _rules(site, used, versions, opening)]
        what = {EVERY_HOST: "Every instance", BASTION: "The bastion"}.get(role, f"Instances with the role {role}")
        groups[role] = SecurityGroupArgs(f"{site.name}-{role.replace('_', '-')}", what, tuple(rules))
    return groups


def instance_groups(site: Site, name: str, assigned: tuple[str, ...]) -> tuple[str, ...]:
    """Keys of the security groups of an instance, some of which the site may not need."""
    return (EVERY_HOST, *assigned, *((BASTION,) if name == site.hosts.bastion else ()))


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
    """Those that are not instances, and so in no group."""
    for machine in site.hosts.machines:
        own = {*machine.roles, *((BASTION,) if machine.name == site.hosts.bastion else ())}
        if EVERY_HOST in opening.clients or set(opening.clients) & own:
            yield ip_network(machine.address)
    yield from networks_of(site, opening)
