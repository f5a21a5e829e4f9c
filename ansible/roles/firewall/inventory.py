"""Variables of the role firewall."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from strata.models import Site
from strata.site.hosts import hosts
from strata.site.openings import EVERY_HOST, Opening, networks_of, openings
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """What the hosts of each group accept; `all` stands for every host."""
    everyone = hosts(site, outputs)

    def networks(opening: Opening, kind: type[IPv4Network | IPv6Network]) -> list[str]:
        clients = [
            ip_network(ip_address(host.address))
            for host in everyone
            if EVERY_HOST in opening.clients or set(opening.clients) & set(host.roles)
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
                    "port": opening.port or 0,
                    "ipv4": networks(opening, IPv4Network),
                    "ipv6": networks(opening, IPv6Network),
                }
                for opening in accepted
            ]
            for group, accepted in openings().items()
        }
    }
