"""Security groups and port security as an nftables table of the bridge family.

A chain per port and direction, a chain per group and direction, a set per remote group: as neutron's own firewall
drivers have it. What answers a connection carries REPLY, set by the table in `routing`, because the bridge family knows
no connections. Only answers are taken from the connection; the rest is held against the rules packet by packet, so a
removed rule also ends what it had let in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from strata_lab.network.attachments import Attachment
from strata_lab.network.metadata import PROXY_PORT
from strata_lab.network.model import Port, Rule, State

REPLY = 0x01000000
"""Bit of the packet mark: this packet answers a connection."""

IS_REPLY = f"meta mark & 0x{REPLY:08x} == 0x{REPLY:08x}"
FAMILIES = {"IPv4": ("ip", "ipv4_addr", 4), "IPv6": ("ip6", "ipv6_addr", 6)}
ICMP = {"IPv4": ("icmp", "icmp"), "IPv6": ("icmpv6", "ipv6-icmp")}
ICMP_NAMES = {"icmp", "1", "ipv6-icmp", "icmpv6", "58"}
WITH_PORTS = {"tcp", "udp", "sctp", "dccp", "udplite", "6", "17", "132", "33", "136"}
NEIGHBOUR_DISCOVERY = "icmpv6 type { 130, 131, 132, 133, 135, 136, 143 }"
"""What an IPv6 host cannot do without; router advertisements only come in."""


def table_name(site: str) -> str:
    """Name of the site's tables."""
    return f"strata-{site}"


def filter_table(site: str, state: State, attached: Iterable[Attachment]) -> str:
    """The table in nft's language, without the commands that replace an older one.

    Args:
        site: named in the table.
        state: neutron's objects.
        attached: the interfaces; one without a port of neutron's passes nothing.
    """
    by_address = {(port.network_id, address): port for port in state.ports for address in port.fixed_ips}
    wired = [(link.interface, by_address.get((link.network_id, link.address))) for link in attached]
    used = sorted({group for _, port in wired if port for group in port.security_groups})
    lines = [
        f"table bridge {table_name(site)} {{",
        *_set("interfaces", "ifname", (f'"{interface}"' for interface, _ in wired)),
        *(line for family in FAMILIES for line in _subnets(state, family)),
    ]
    for group in _remote_groups(state, used):
        for family, (_, kind, version) in FAMILIES.items():
            members = (a for port in state.ports if group in port.security_groups for a in port.addresses)
            lines += _set(_remote(group, family), kind, _only(members, version), interval=True)
    for group in _address_groups(state, used):
        for family, (_, kind, version) in FAMILIES.items():
            members = (a for a in state.address_groups.get(group, ()))
            lines += _set(_remote(group, family), kind, _only(members, version), interval=True)
    for group in used:
        for direction in ("ingress", "egress"):
            rules = [r for r in state.groups.get(group, ()) if r.direction == direction]
            lines += _chain(_group_chain(group, direction), sorted({rule_expression(r) + " accept" for r in rules}))
    for interface, port in wired:
        lines += _chain(f"source_{interface}", _source(port))
        lines += _chain(f"egress_{interface}", _port_chain(port, "egress"))
        lines += _chain(f"ingress_{interface}", _port_chain(port, "ingress"))
    names = [interface for interface, _ in wired]
    unknown = "!= @interfaces"
    lines += _base("prerouting", "prerouting", -310, _dispatch("iifname", "source", names), f"iifname {unknown}", "s")
    lines += _base("egress_bridged", "forward", -20, _dispatch("iifname", "egress", names))
    gateways = _elements(_only((s.gateway_ip for s in state.subnets if s.gateway_ip), 4))
    # translated from 169.254.169.254 by now, so that no rule of a group would know it
    metadata = [f"ip daddr {gateways} tcp dport {PROXY_PORT} accept"] if gateways else []
    lines += _base("egress_local", "input", -20, [*metadata, *_dispatch("iifname", "egress", names)])
    ingress = _dispatch("oifname", "ingress", names)
    lines += _base("ingress_bridged", "forward", -10, ingress, f"oifname {unknown}", "d")
    lines += _base("ingress_local", "output", -10, ingress, f"oifname {unknown}", "d")
    return "\n".join([*lines, "}"]) + "\n"


def rule_expression(rule: Rule) -> str:
    """What a rule matches."""
    field, _, _ = FAMILIES[rule.ethertype]
    icmp, _ = ICMP[rule.ethertype]
    side = "saddr" if rule.direction == "ingress" else "daddr"
    parts = [f"ether type {field}"]
    if rule.remote_ip_prefix is not None:
        prefix = str(ip_network(rule.remote_ip_prefix, strict=False))
        # nft does not match a prefix of length 0
        if not prefix.endswith("/0"):
            parts.append(f"{field} {side} {prefix}")
    for group in (rule.remote_group_id, rule.remote_address_group_id):
        if group is not None:
            parts.append(f"{field} {side} @{_remote(group, rule.ethertype)}")
    protocol = rule.protocol
    if protocol is None or protocol in ("any", "0"):
        return " ".join(parts)
    if protocol in ICMP_NAMES:
        parts.append(f"meta l4proto {icmp if icmp == 'icmp' else 'ipv6-icmp'}")
        if rule.port_range_min is not None:
            parts.append(f"{icmp} type {rule.port_range_min}")
        if rule.port_range_max is not None:
            parts.append(f"{icmp} code {rule.port_range_max}")
        return " ".join(parts)
    parts.append(f"meta l4proto {protocol}")
    if protocol in WITH_PORTS and rule.port_range_min is not None:
        last = rule.port_range_max if rule.port_range_max is not None else rule.port_range_min
        parts.append(f"th dport {rule.port_range_min}-{last}" if last != rule.port_range_min else f"th dport {last}")
    return " ".join(parts)


def _source(port: Port | None) -> list[str]:
    """Port security: an instance sends from its own addresses only."""
    if port is None or not port.admin_state_up:
        return ["drop"]
    if not port.port_security_enabled:
        return ["return"]
    allowed: dict[str, list[str]] = {port.mac_address: [*port.fixed_ips, link_local(port.mac_address)]}
    for pair in port.allowed_address_pairs:
        allowed.setdefault(pair.mac_address, []).append(pair.ip_address)
    lines = []
    for mac, addresses in sorted(allowed.items()):
        version4 = _elements(_only(addresses, 4))
        if version4:
            lines.append(f"ether saddr {mac} ip saddr {version4} return")
            lines.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip {version4} return")
        # an address is probed for duplicates before it is used
        lines.append(f"ether saddr {mac} arp saddr ip 0.0.0.0 return")
        lines.append(f"ether saddr {mac} ip6 saddr :: {NEIGHBOUR_DISCOVERY} return")
        if version6 := _elements(_only(addresses, 6)):
            lines.append(f"ether saddr {mac} ip6 saddr {version6} return")
    return [*lines, "drop"]


def _port_chain(port: Port | None, direction: str) -> list[str]:
    if port is None or not port.admin_state_up:
        return ["drop"]
    if not port.port_security_enabled:
        return ["accept"]
    lines = ["ether type arp accept", f"{IS_REPLY} accept"]
    if direction == "egress":
        # instances are neither DHCP servers nor IPv6 routers
        lines += ["udp sport 67 udp dport 68 drop", f"{NEIGHBOUR_DISCOVERY} accept", "icmpv6 type 134 drop"]
    else:
        lines += [f"{NEIGHBOUR_DISCOVERY} accept", "icmpv6 type 134 accept"]
    lines += [f"jump {_group_chain(group, direction)}" for group in sorted(port.security_groups)]
    return [*lines, "drop"]


def link_local(mac: str) -> str:
    """The IPv6 address that an interface gives itself."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    words = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
    groups = [f"{words[i] << 8 | words[i + 1]:x}" for i in range(0, 8, 2)]
    return str(ip_network(f"fe80::{':'.join(groups)}").network_address)


def _remote_groups(state: State, used: list[str]) -> list[str]:
    return sorted({r.remote_group_id for group in used for r in state.groups.get(group, ()) if r.remote_group_id})


def _address_groups(state: State, used: list[str]) -> list[str]:
    rules = (rule for group in used for rule in state.groups.get(group, ()))
    return sorted({rule.remote_address_group_id for rule in rules if rule.remote_address_group_id})


def _remote(group: str, family: str) -> str:
    return f"remote_{group.replace('-', '')}_{FAMILIES[family][2]}"


def _group_chain(group: str, direction: str) -> str:
    return f"{direction}_{group.replace('-', '')}"


def _subnets(state: State, family: str) -> Iterator[str]:
    _, kind, version = FAMILIES[family]
    yield from _set(f"subnets_{version}", kind, (s.cidr for s in state.subnets if s.version == version), interval=True)


def _only(addresses: Iterable[str], version: int) -> list[str]:
    networks = {ip_network(address, strict=False) for address in addresses}
    return [
        str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)
        for network in sorted(n for n in networks if n.version == version)
    ]


def _elements(values: Iterable[str]) -> str:
    listed = ", ".join(values)
    return f"{{ {listed} }}" if listed else ""


def _set(name: str, kind: str, values: Iterable[str], *, interval: bool = False) -> Iterator[str]:
    yield f"  set {name} {{"
    yield f"    type {kind}"
    if interval:
        yield "    flags interval"
        yield "    auto-merge"
    if elements := _elements(values):
        yield f"    elements = {elements}"
    yield "  }"


def _chain(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"  chain {name} {{"
    yield from (f"    {line}" for line in lines)
    yield "  }"


def _dispatch(key: str, chain: str, interfaces: list[str]) -> list[str]:
    if not interfaces:
        return []
    entries = ", ".join(f'"{interface}" : jump {chain}_{interface}' for interface in interfaces)
    return [f"{key} vmap {{ {entries} }}"]


def _base(
    name: str, hook: str, priority: int, lines: list[str], unknown: str | None = None, side: str = "s"
) -> Iterator[str]:
    body = [f"type filter hook {hook} priority {priority}; policy accept;", *lines]
    if unknown is not None:
        # an interface that came up just now and is not known yet: nothing until it is
        body += [f"{unknown} {field} {side}addr @subnets_{version} drop" for field, _, version in FAMILIES.values()]
    yield from _chain(name, body)
