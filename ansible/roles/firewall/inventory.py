"""Variables of the role firewall."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network
from typing import TypeVar

from strata.models import Site
from strata.site.hosts import hosts
from strata.site.openings import BASTION, EVERY_HOST, Opening, behind_bastion, networks_of, openings
from strata.site.outputs import CloudOutputs

Network = TypeVar("Network", IPv4Network, IPv6Network)


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """What the hosts of each group accept; `all` stands for every host."""
    everyone = hosts(site, outputs)
    accepted = dict(openings())
    if site.hosts.bastion is not None:
        accepted, accepted[BASTION] = behind_bastion(accepted)

    def networks(opening: Opening, kind: type[Network]) -> list[str]:
        clients = [
            ip_network(ip_address(address))
            for host in everyone
            if {EVERY_HOST, *host.roles, *_groups(site, host.name)} & set(opening.clients)
            for address in (host.address, host.floating_ip)
            if address
        ]
        # a set of nftables refuses networks that overlap
        own = (network for network in (*clients, *networks_of(site, opening)) if isinstance(network, kind))
        return [str(network) for network in collapse_addresses(own)]

    return {
        "firewall_accepts": {
            ("all" if group == EVERY_HOST else group): [
                {
                    "name": opening.name,
                    "protocol": opening.protocol or "",
                    "ports": f"{opening.port}-{opening.last}" if opening.last else str(opening.port or ""),
                    "ipv4": networks(opening, IPv4Network),
                    "ipv6": networks(opening, IPv6Network),
                }
                for opening in own
            ]
            for group, own in accepted.items()
        }
    }


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Groups of a host that are no roles."""
    return {"firewall_groups": ["all", *_groups(site, host)]}


def _groups(site: Site, host: str) -> tuple[str, ...]:
    return (BASTION,) if host == site.hosts.bastion else ()
