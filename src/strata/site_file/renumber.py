"""Free networks in the place of those that another site uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from strata.errors import UserError

IPNetwork = IPv4Network | IPv6Network
IPAddress = IPv4Address | IPv6Address

PRIVATE: tuple[IPNetwork, ...] = tuple(
    ip_network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8")
)
"""Where new networks may be: RFC 1918 and RFC 4193."""
# an address with nothing around it that would make it another word; IPv6 has two colons at least
_VERSION_4, _VERSION_6 = r"\d{1,3}(?:\.\d{1,3}){3}", r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}"
_ADDRESS = re.compile(rf"(?<![\w.:])(?:{_VERSION_4}|{_VERSION_6})(?![\w:]|\.\d)")


def free_network(like: IPNetwork, taken: Iterable[IPNetwork]) -> IPNetwork:
    """The next network of the same size that shares no address with others.

    Args:
        like: the network after which to look; its private block is searched, from there on and then from its start.
        taken: networks to stay clear of.

    Raises:
        UserError: the block is full.
    """
    others = [n for n in (*taken, like) if n.version == like.version]
    block = next((b for b in PRIVATE if b.version == like.version and like.subnet_of(b)), None)  # type: ignore[arg-type]
    if block is None:
        block = PRIVATE[0] if like.version == 4 else PRIVATE[-1]
    size, first, last = like.num_addresses, int(block.network_address), int(block.broadcast_address)
    begin = int(like.network_address) if like.network_address in block else first
    for start, end in ((begin, last), (first, begin - 1)):
        place = start
        while place + size - 1 <= end:
            high = place + size - 1
            hit = [n for n in others if int(n.network_address) <= high and place <= int(n.broadcast_address)]
            if not hit:
                return ip_network((place, like.prefixlen))
            # to the first place of this size after the furthest of those in the way
            place = -(-(max(int(n.broadcast_address) for n in hit) + 1) // size) * size
    raise UserError(
        f"no network like {like} is free in {block}",
        fix="remove a site that is no longer needed, or write the networks into the new site.yaml by hand",
    )


def renumber(text: str, moves: Mapping[IPNetwork, IPNetwork]) -> str:
    """Moves every address in a text that lies in one of the networks; the rest of the text stays.

    Args:
        text: of a site file, comments included: they speak of the same addresses.
        moves: old network to new network of the same size.
    """

    def moved(match: re.Match[str]) -> str:
        try:
            address = ip_address(match[0])
        except ValueError:
            return match[0]
        for old, new in moves.items():
            if address in old:
                return str(new.network_address + (int(address) - int(old.network_address)))
        return match[0]

    return _ADDRESS.sub(moved, text)
