"""Drift of the ports of instances and of the load balancers' address that Pulumi's provider does not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any

from strata.drift.made import Difference, Made, MadeObjects, Property
from strata.drift.network import has_port_security, shown
from strata.drift_model import ABSENT, PRESENT

COMPARED = ("security_groups", "port_security_enabled", "fixed_ips", "floating IP")
"""Properties of a port."""
_AUTOMATIC = ("slaac", "dhcpv6-stateless")
"""Address modes of IPv6 subnets whose addresses neutron derives from the port's MAC address."""


def port_differences(network: Any, made: MadeObjects, project: str) -> Iterator[Difference]:
    """Ports of the state that are not as declared; one that is gone is left to the program.

    Args:
        network: openstacksdk's proxy.
        made: what Strata created.
        project: id of the site's project.
    """
    known = made.get("Port", {})
    if not known:
        return
    names = {str(group.id): str(group.name) for group in network.security_groups(project_id=project)}
    subnets = list(network.subnets())
    secured = has_port_security(network)
    for port in network.ports(project_id=project):
        if (resource := known.get(str(port.id))) is not None:
            yield from _port(network, resource, port, names, subnets, secured=secured)
    for address in network.ips(project_id=project):
        port_id = str(address.port_id or "")
        if port_id in known and str(address.id) not in made.get("FloatingIp", {}):
            text = Property(f"floating IP {address.floating_ip_address}", ABSENT, PRESENT)
            yield Difference(str(known[port_id]), (text,), partial(network.update_ip, address.id, port_id=None))


def _port(
    network: Any, resource: Made, port: Any, names: Mapping[str, str], subnets: list[Any], *, secured: bool
) -> Iterator[Difference]:
    """One update repairs all: neutron refuses groups on a port without port security, and the other way round."""
    changed: dict[str, object] = {}
    properties = []
    groups, actual = set(resource.inputs.get("securityGroupIds") or ()), set(port.security_group_ids or ())
    # until the first run after an import, the state has no groups: the provider does not read them
    if groups and groups != actual:
        changed["security_group_ids"] = sorted(groups)
        properties.append(Property("security_groups", _names(groups, names), _names(actual, names)))
    if secured and port.is_port_security_enabled is False and not resource.declares("portSecurityEnabled"):
        changed["is_port_security_enabled"] = True
        properties.append(Property("port_security_enabled", shown(True), shown(False)))
        if groups:
            changed["security_group_ids"] = sorted(groups)
    addresses = {str(ip_address(address)) for address in resource.outputs.get("allFixedIps") or ()}
    present = {str(ip_address(ip["ip_address"])) for ip in port.fixed_ips or ()}
    if addresses and addresses != present:
        changed["fixed_ips"] = [_fixed_ip(address, port.network_id, subnets) for address in sorted(addresses)]
        properties.append(Property("fixed_ips", ", ".join(sorted(addresses)), ", ".join(sorted(present)) or "none"))
    if properties:
        yield Difference(str(resource), tuple(properties), partial(network.update_port, resource.id, **changed))


def _fixed_ip(address: str, network_id: str, subnets: list[Any]) -> dict[str, str]:
    ip = ip_address(address)
    for subnet in subnets:
        if subnet.network_id == network_id and ip in ip_network(subnet.cidr):
            automatic = subnet.ipv6_address_mode in _AUTOMATIC
            return {"subnet_id": subnet.id} | ({} if automatic else {"ip_address": address})
    return {"ip_address": address}


def _names(groups: set[str], names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names.get(group, group) for group in groups)) or "none"
