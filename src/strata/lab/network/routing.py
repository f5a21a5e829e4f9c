"""Routers, floating IPs and the border of the site as an nftables table of the inet family."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strata.lab.network.attachments import Attachment
from strata.lab.network.filtering import IS_REPLY, REPLY, table_name
from strata.lab.network.model import State

PUBLIC_PORTS = (5000, 8774, 8778, 9292, 9696)
"""OpenStack's APIs, which instances may call as in any cloud; the controller's other ports they may not."""
METADATA_ADDRESS = "169.254.169.254"
METADATA_PORT = 9697
"""Where the metadata proxy listens on each network's gateway, as neutron's own does."""
MARK_ANSWERS = tuple(
    f"ct state {state} meta mark set meta mark or 0x{REPLY:08x}"
    for state in ("established ct direction reply", "related")
)
REFUSE = "reject with icmpx admin-prohibited"


@dataclass(frozen=True)
class Surroundings:
    """What is around the site's networks on this host.

    Args:
        controller: address of the OpenStack controller.
        control_bridge: its bridge, None while it is not up.
        outside: interfaces of the default route.
        name_servers: the host's, of which some may be the host itself.
    """

    controller: str
    control_bridge: str | None
    outside: tuple[str, ...]
    name_servers: tuple[str, ...] = ()


def routing_table(site: str, state: State, attached: Iterable[Attachment], around: Surroundings) -> str:
    """The table in nft's language, without the commands that replace an older one.

    Args:
        site: named in the table.
        state: neutron's objects.
        attached: tells the networks' bridges.
        around: the host.
    """
    bridges = {link.network_id: link.bridge for link in attached}
    networks = {subnet.id: subnet.network_id for subnet in state.subnets}
    pairs = {(bridge, bridge) for bridge in bridges.values()}
    # in a cloud without an external network the host takes the place of one
    outward: set[str] = set() if state.external_subnets else set(bridges.values())
    for router in state.routers:
        joined = sorted({bridges[networks[s]] for s in router.subnets if networks.get(s) in bridges})
        pairs |= {(a, b) for a in joined for b in joined}
        if router.external:
            outward |= set(joined)
    inside = _named(bridges.values())
    lines = [f"table inet {table_name(site)} {{"]
    if inside:
        lines += _base("prerouting", "prerouting", -140, [f"iifname {inside} {rule}" for rule in MARK_ANSWERS])
        lines += _base("postrouting", "postrouting", -140, [f"oifname {inside} {rule}" for rule in MARK_ANSWERS])
        lines += _base("forward", "forward", -10, _forward(inside, pairs, outward, around))
        lines += _base("input", "input", -10, _input(inside, around))
    return "\n".join([*lines, "}"]) + "\n"


def _forward(inside: str, pairs: set[tuple[str, str]], outward: set[str], around: Surroundings) -> list[str]:
    lines = [f"iifname . oifname {{ {', '.join(f'{_q(a)} . {_q(b)}' for a, b in sorted(pairs))} }} accept"]
    # answers; and what somebody's floating IP translated, whose own security groups decide
    lines += [
        f"{side} {inside} {what} accept" for side in ("iifname", "oifname") for what in (IS_REPLY, "ct status dnat")
    ]
    if outward and around.control_bridge is not None:
        to_controller = f"oifname {_q(around.control_bridge)} ip daddr {around.controller}"
        ports = ", ".join(map(str, PUBLIC_PORTS))
        lines.append(f"iifname {_named(outward)} {to_controller} tcp dport {{ {ports} }} accept")
    if outward and around.outside:
        lines.append(f"iifname {_named(outward)} oifname {_named(around.outside)} accept")
    return [*lines, f"iifname {inside} {REFUSE}", f"oifname {inside} {REFUSE}"]


def _input(inside: str, around: Surroundings) -> list[str]:
    """What instances may say to the host itself, which is their router."""
    allowed = [IS_REPLY, "icmp type echo-request", "meta l4proto ipv6-icmp"]
    for server in around.name_servers:
        field = "ip6" if ":" in server else "ip"
        allowed.append(f"{field} daddr {server} meta l4proto {{ tcp, udp }} th dport 53")
    allowed.append(f"tcp dport {METADATA_PORT} ct status dnat")
    return [*(f"iifname {inside} {match} accept" for match in allowed), f"iifname {inside} {REFUSE}"]


def _base(name: str, hook: str, priority: int, rules: list[str], kind: str = "filter") -> list[str]:
    head = f"type {kind} hook {hook} priority {priority}; policy accept;"
    return [f"  chain {name} {{", *(f"    {line}" for line in (head, *rules)), "  }"]


def _q(name: str) -> str:
    return f'"{name}"'


def _named(names: Iterable[str]) -> str:
    listed = ", ".join(_q(name) for name in sorted(set(names)))
    return f"{{ {listed} }}" if listed else ""
