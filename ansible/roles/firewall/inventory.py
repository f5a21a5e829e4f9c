"""Variables of the role firewall."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from strata.models.site import Site
from strata.site.host_list import hosts
from strata.site.openings import BASTION, EVERY_HOST, Opening, behind_bastion, networks_of, openings
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """What the hosts of each group accept; `all` means every host."""
    accepted = dict(openings(site))
    if site.hosts.bastion is not None:
        accepted, accepted[BASTION] = behind_bastion(accepted)
    return {
        "firewall_accepts": {
            ("all" if group == EVERY_HOST else group): [
                {
                    "name": opening.name,
                    "protocol": opening.protocol or "",
                    "ports": f"{opening.port}-{opening.last}" if opening.last else str(opening.port or ""),
                    **_networks(site, outputs, opening),
                }
                for opening in own
            ]
            for group, own in accepted.items()
        }
    }


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Groups of a host that are not roles."""
    return {"firewall_groups": ["all", *_groups(site, host)]}


def _groups(site: Site, host: str) -> tuple[str, ...]:
    return (BASTION,) if host == site.hosts.bastion else ()


def _networks(site: Site, outputs: CloudOutputs | None, opening: Opening) -> dict[str, list[str]]:
    """Who may connect, without overlaps, which a set of nftables refuses."""
    networks = list(networks_of(site, opening))
    for host in hosts(site, outputs):
        if {EVERY_HOST, *host.roles, *_groups(site, host.name)} & set(opening.clients):
            networks += [ip_network(ip_address(address)) for address in (host.address, host.floating_ip) if address]
    return {
        "ipv4": list(map(str, collapse_addresses(n for n in networks if isinstance(n, IPv4Network)))),
        "ipv6": list(map(str, collapse_addresses(n for n in networks if isinstance(n, IPv6Network)))),
    }
