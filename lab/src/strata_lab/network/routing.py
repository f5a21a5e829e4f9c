"""Routers, floating IPs and the border of the site as an nftables table of the inet family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from strata_lab.network.attachments import Attachment
from strata_lab.network.filtering import REPLY, table_name
from strata_lab.network.metadata import ADDRESS, PROXY_PORT, MetadataListener
from strata_lab.network.model import State

PUBLIC_PORTS = (5000, 8774, 8778, 9292, 9696)
"""OpenStack's APIs, which instances may call as in any cloud; the controller's other ports they may not."""
ANSWERS = ("ct state established ct direction reply", "ct state related")
MARK_ANSWERS = tuple(f"{answer} meta mark set meta mark or 0x{REPLY:08x}" for answer in ANSWERS)
REFUSE = "reject with icmpx admin-prohibited"


@dataclass(frozen=True)
class Surroundings:
    """What is around the site's networks on this host.

    Args:
        controller: address of the OpenStack controller.
        control_bridge: its bridge, None while it is not up.
        outside: interfaces of the default route.
        name_servers: the host's, of which some may be the host itself.
        backup_store: address of the site's backup store, if it has one.
        clients: networks of the site, whose instances reach the backup store.
    """

    controller: str
    control_bridge: str | None
    outside: tuple[str, ...]
    name_servers: tuple[str, ...] = ()
    backup_store: str | None = None
    clients: tuple[str, ...] = ()


def routing_table(site: str, state: State, attached: Sequence[Attachment], around: Surroundings) -> str:
    """The table in nft's language, without the commands that replace an older one.

    Args:
        site: named in the table.
        state: neutron's objects.
        attached: has the networks' bridges.
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
        leaving = [f"oifname {inside} {rule}" for rule in (*MARK_ANSWERS, _only_current(state))]
        lines += _base("postrouting", "postrouting", -140, leaving)
        lines += _base("forward", "forward", -10, _forward(inside, pairs, outward, around))
        lines += _base("input", "input", -10, _input(inside, around))
        floating = {f.address: f.fixed_address for f in state.floating_ips}
        metadata = [
            f"iifname {_q(d.bridge)} ip daddr {ADDRESS} tcp dport 80 dnat ip to {d.gateway}:{PROXY_PORT}"
            for d in metadata_listeners(state, attached)
        ]
        # ahead of podman's own translations, which leave alone what has one already
        lines += _base("floating_in", "prerouting", -110, [*metadata, *_translations("d", floating)], "nat")
        lines += _base("floating_from_host", "output", -110, _translations("d", floating), "nat")
        lines += _base("floating_out", "postrouting", 90, _outgoing(inside, state, attached, around), "nat")
    return "\n".join([*lines, "}"]) + "\n"


def _forward(inside: str, pairs: set[tuple[str, str]], outward: set[str], around: Surroundings) -> list[str]:
    lines = [f"iifname . oifname {{ {', '.join(f'{_q(a)} . {_q(b)}' for a, b in sorted(pairs))} }} accept"]
    lines += [f"{side} {inside} {answer} accept" for side in ("iifname", "oifname") for answer in ANSWERS]
    # what a floating IP translated comes from where a router leads out; the receiver's security groups decide
    if outward:
        lines.append(f"iifname {_named(outward)} ct status dnat accept")
    lines.append(f"iifname != {inside} oifname {inside} ct status dnat accept")
    if outward and around.control_bridge is not None:
        to_controller = f"oifname {_q(around.control_bridge)} ip daddr {around.controller}"
        ports = ", ".join(map(str, PUBLIC_PORTS))
        lines.append(f"iifname {_named(outward)} {to_controller} tcp dport {{ {ports} }} accept")
        if around.backup_store is not None and around.clients:
            to_store = f"oifname {_q(around.control_bridge)} ip daddr {around.backup_store} tcp dport 443"
            sources = f"ip saddr {{ {', '.join(around.clients)} }}"
            lines.append(f"iifname {_named(outward)} {sources} {to_store} accept")
    if outward and around.outside:
        lines.append(f"iifname {_named(outward)} oifname {_named(around.outside)} accept")
    return [*lines, f"iifname {inside} {REFUSE}", f"oifname {inside} {REFUSE}"]


def _input(inside: str, around: Surroundings) -> list[str]:
    """What instances may send to the host itself, which is their router."""
    allowed = [*ANSWERS, "icmp type echo-request", "meta l4proto ipv6-icmp"]
    for server in around.name_servers:
        field = "ip6" if ":" in server else "ip"
        allowed.append(f"{field} daddr {server} meta l4proto {{ tcp, udp }} th dport 53")
    allowed.append(f"tcp dport {PROXY_PORT} ct status dnat")
    return [*(f"iifname {inside} {match} accept" for match in allowed), f"iifname {inside} {REFUSE}"]


def metadata_listeners(state: State, attached: Iterable[Attachment]) -> list[MetadataListener]:
    """Listeners of the metadata service: the gateway of every network that has instances."""
    bridges = {link.network_id: link.bridge for link in attached}
    listeners = {
        MetadataListener(subnet.network_id, subnet.gateway_ip, bridges[subnet.network_id])
        for subnet in state.subnets
        if subnet.gateway_ip and subnet.version == 4 and subnet.network_id in bridges
    }
    return sorted(listeners, key=lambda listener: listener.bridge)


def _only_current(state: State) -> str:
    """Ends connections over a floating IP that belongs to another port by now, or to none."""
    pairs = ", ".join(f"{f.address} . {f.fixed_address}" for f in state.floating_ips)
    translated = "ct direction original ct status dnat"
    return f"{translated} ct original ip daddr . ip daddr != {{ {pairs} }} drop" if pairs else f"{translated} drop"


def _translations(kind: str, pairs: Mapping[str, str], match: str = "") -> list[str]:
    """Rules that put the second address of each pair in the place of the first one."""
    if not pairs:
        return []
    entries = ", ".join(f"{a} : {b}" for a, b in sorted(pairs.items()))
    return [f"{match} {kind}nat ip to ip {kind}addr map {{ {entries} }}".strip()]


def _outgoing(inside: str, state: State, attached: Iterable[Attachment], around: Surroundings) -> list[str]:
    """Sources of what leaves a network: the floating IP towards the cloud, its own between networks of a router."""
    floating = {f.fixed_address: f.address for f in state.floating_ips}
    own = {link.address: link.address for link in attached}
    lines = _translations("s", floating, f"oifname {inside} ct status dnat")
    # podman would put the host's address there, and remote groups would not know the sender
    lines += _translations("s", own, f"oifname {inside}")
    if around.control_bridge is not None:
        lines += _translations("s", floating, f"oifname {_q(around.control_bridge)}")
    return lines


def _base(name: str, hook: str, priority: int, rules: list[str], kind: str = "filter") -> list[str]:
    head = f"type {kind} hook {hook} priority {priority}; policy accept;"
    return [f"  chain {name} {{", *(f"    {line}" for line in (head, *rules)), "  }"]


def _q(name: str) -> str:
    return f'"{name}"'


def _named(names: Iterable[str]) -> str:
    listed = ", ".join(_q(name) for name in sorted(set(names)))
    return f"{{ {listed} }}" if listed else ""
