"""Drift of networks, subnets, routers and security groups that Pulumi's provider does not see.

The provider compares what the program declares. What the program leaves at OpenStack's default, and what others added
to an object, it reads at best. Each function takes openstacksdk's network proxy and lists differences.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from strata.drift.made import Difference, Made, MadeObjects, Property
from strata.drift_model import ABSENT, MISSING, PRESENT

INTERFACE_OWNERS = frozenset(
    {
        "network:router_interface",
        "network:router_interface_distributed",
        "network:ha_router_replicated_interface",
    }
)
"""Device owners of the ports by which a router is in its networks."""
DEFAULTS: Mapping[str, Mapping[str, tuple[str, str, object]]] = {
    "Network": {
        "shared": ("is_shared", "shared", False),
        "port_security_enabled": ("is_port_security_enabled", "portSecurityEnabled", True),
        "router:external": ("is_router_external", "external", False),
    },
    "Subnet": {
        "enable_dhcp": ("is_dhcp_enabled", "enableDhcp", True),
        "dns_nameservers": ("dns_nameservers", "dnsNameservers", []),
        "host_routes": ("host_routes", "hostRoutes", []),
        "service_types": ("service_types", "serviceTypes", []),
    },
    "Router": {"routes": ("routes", "routes", [])},
    "SecGroup": {"stateful": ("stateful", "stateful", True)},
}
"""Type to property: its name in openstacksdk, as an input of the program, and the value where that leaves it out."""
_RULE = (
    "direction",
    "ether_type",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id",
)
_EVERYTHING = {"0.0.0.0/0", "::/0"}


def network_differences(network: Any, made: MadeObjects, project: str) -> Iterator[Difference]:
    """Networks, subnets, routers and security groups of the state that are not as declared; one that is gone is left
    to the program.

    Args:
        network: openstacksdk's proxy.
        made: what Strata created.
        project: id of the site's project.
    """
    own = {"project_id": project}
    # an external network that Strata created belongs to the administrator's project
    if made.get("Network"):
        unknown = () if has_port_security(network) else ("port_security_enabled",)
        yield from _defaults("Network", network.networks(), made, network.update_network, unknown)
    if made.get("Subnet"):
        yield from _defaults("Subnet", network.subnets(), made, network.update_subnet)
    if made.get("Router"):
        yield from _defaults("Router", network.routers(**own), made, network.update_router)
        yield from _interfaces(network, made)
    if made.get("SecGroup"):
        groups = list(network.security_groups(**own))
        yield from _defaults("SecGroup", groups, made, network.update_security_group)
        yield from _rules(network, made, groups, project)


def has_port_security(network: Any) -> bool:
    """Whether the cloud has the extension; without it, openstacksdk shows False for each port and network."""
    return any(extension.alias == "port-security" for extension in network.extensions())


def _defaults(
    kind: str, objects: Iterable[Any], made: MadeObjects, update: Any, unknown: Collection[str] = ()
) -> Iterator[Difference]:
    """Properties that the program leaves at OpenStack's default."""
    for item in objects:
        known = made[kind].get(str(item.id))
        if known is None:
            continue
        changed: dict[str, object] = {}
        properties = []
        for name, (attribute, key, default) in DEFAULTS[kind].items():
            actual = getattr(item, attribute)
            # None: this cloud has no such property
            if name in unknown or known.declares(key) or actual is None or actual == default:
                continue
            changed[attribute] = default
            properties.append(Property(name, shown(default), shown(actual)))
        if properties:
            yield Difference(str(known), tuple(properties), partial(update, known.id, **changed))


def _interfaces(network: Any, made: MadeObjects) -> Iterator[Difference]:
    """Interfaces by which a router was connected to further networks; the provider notices one that is gone."""
    for router in made["Router"].values():
        for port in network.ports(device_id=router.id):
            if port.device_owner in INTERFACE_OWNERS and str(port.id) not in made.get("RouterInterface", {}):
                addresses = ", ".join(ip["ip_address"] for ip in port.fixed_ips) or port.id
                remove = partial(network.remove_interface_from_router, router.id, port=port.id)
                yield Difference(str(router), (Property(f"interface {addresses}", ABSENT, PRESENT),), remove)


def _rules(network: Any, made: MadeObjects, groups: Collection[Any], project: str) -> Iterator[Difference]:
    """Rules that were added to a group, and those of every new group that are gone."""
    names = {str(group.id): str(group.name) for group in groups}
    standard = _standard_rules(network)
    declared = made.get("SecGroupRule", {})
    present: dict[str, list[Any]] = {group: [] for group in names if group in made["SecGroup"]}
    for rule in network.security_group_rules(project_id=project):
        if rule.security_group_id in present and str(rule.id) not in declared:
            present[rule.security_group_id].append(rule)
    for identifier, rules in present.items():
        group = made["SecGroup"][identifier]
        missing = list(standard)
        for rule in rules:
            if (values := _values(rule)) in missing:
                missing.remove(values)
                continue
            remove = partial(network.delete_security_group_rule, rule.id)
            yield _rule(group, values, names, ABSENT, PRESENT, remove)
        for values in missing:
            given = {key: value for key, value in values.items() if value is not None}
            create = partial(
                network.create_security_group_rule, security_group_id=identifier, project_id=project, **given
            )
            yield _rule(group, values, names, PRESENT, MISSING, create)


def _rule(
    group: Made, values: Mapping[str, Any], names: Mapping[str, str], desired: str, actual: str, repair: Any
) -> Difference:
    return Difference(str(group), (Property(f"rule {_text(values, names)}", desired, actual),), repair)


def _standard_rules(network: Any) -> list[dict[str, Any]]:
    """Rules that neutron gives to every new group: to anywhere, unless the cloud's administrator changed them."""
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    try:
        rules = [_values(rule) for rule in network.default_security_group_rules() if rule.used_in_non_default_sg]
    except SDKException:
        rules = []  # an older neutron, or not for a member
    own = [rule for rule in rules if rule["remote_group_id"] is None]
    plain: dict[str, Any] = dict.fromkeys(_RULE) | {"direction": "egress"}
    return own or [plain | {"ether_type": version} for version in ("IPv4", "IPv6")]


def _values(rule: Any) -> dict[str, Any]:
    values = {key: getattr(rule, key, None) for key in _RULE}
    if values["remote_ip_prefix"] in _EVERYTHING:
        values["remote_ip_prefix"] = None
    return values


def _text(values: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """ "ingress IPv4 tcp 22-22 from 0.0.0.0/0"."""
    parts = [values["direction"], values["ether_type"], values["protocol"] or "any"]
    if values["port_range_min"] is not None:
        parts.append(f"{values['port_range_min']}-{values['port_range_max']}")
    group = values["remote_group_id"]
    remote = values["remote_ip_prefix"] or (names.get(group, group) if group else values["remote_address_group_id"])
    side = "from" if values["direction"] == "ingress" else "to"
    return " ".join((*parts, side, remote or "anywhere"))


def shown(value: object) -> str:
    """A value as an operator reads it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if value or value is False else "none"
