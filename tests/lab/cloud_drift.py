"""Changes of a running site's cloud that Pulumi's provider does not see, and how `status` names them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.connection import Connection

OBJECTS = 6
"""Objects that `up` repairs."""
GUEST, OPEN = "control-1", "services-1"
"""Instances whose port gets a foreign group, and whose port loses its port security."""
INTERFACE = "control-1"
"""The instance that gets an interface; not the one that the nightly suite deletes."""


@dataclass
class CloudDrift:
    """What was changed.

    Args:
        rows: layer, object, property, desired and actual value that `status` shows.
        port: id of the foreign interface's port, which `up` leaves without an instance.
    """

    rows: set[tuple[str, str, str, str, str]]
    port: str

    def remove(self, cloud: Connection) -> None:
        """Deletes the foreign port."""
        from openstack.exceptions import NotFoundException  # noqa: PLC0415  # loads openstack: 0.2 s

        network: Any = cloud.network
        with suppress(NotFoundException):
            network.delete_port(self.port)


def break_cloud(context: SiteContext, cloud: Connection) -> CloudDrift:
    """A foreign group on a port, port security off, a foreign rule, no egress, DHCP off, a foreign interface."""
    assert context.site.cloud is not None
    network: Any = cloud.network
    name = context.site.name
    project = cloud.get_project(context.site.cloud.project.name)
    assert project is not None
    own = {"project_id": project.id}
    groups = {str(group.id): str(group.name) for group in network.security_groups(**own)}
    ids = {group: identifier for identifier, group in groups.items()}
    ports = {port.name: port for port in network.ports(**own) if port.name}

    def shown(identifiers: list[str]) -> str:
        return ", ".join(sorted(groups[identifier] for identifier in identifiers))

    guest, opened = ports[GUEST], ports[OPEN]
    of_guest, of_opened = list(guest.security_group_ids), list(opened.security_group_ids)
    with_default = [*of_guest, ids["default"]]
    network.update_port(guest.id, security_group_ids=with_default)
    network.update_port(opened.id, security_group_ids=[], is_port_security_enabled=False)
    rules = network.security_group_rules(security_group_id=ids[f"{name}-registry"], direction="egress")
    network.delete_security_group_rule(next(rule for rule in rules if rule.ether_type == "IPv4"))
    network.create_security_group_rule(
        security_group_id=ids[f"{name}-nodes"],
        direction="ingress",
        ether_type="IPv4",
        protocol="tcp",
        port_range_min=8080,
        port_range_max=8080,
        **own,
    )
    platform = context.site.cloud.networks[0].name
    subnet = next(network.subnets(name=platform, **own))
    network.update_subnet(subnet.id, is_dhcp_enabled=False)
    server = next(s for s in cloud.compute.servers(all_projects=True) if s.name == INTERFACE)
    port = network.create_port(
        network_id=subnet.network_id, device_id=server.id, device_owner="compute:nova", name="by-hand", **own
    )
    address = port.fixed_ips[0]["ip_address"]
    rows = {
        ("cloud", f"port {GUEST}", "security_groups", shown(of_guest), shown(with_default)),
        ("cloud", f"port {OPEN}", "security_groups", shown(of_opened), "none"),
        ("cloud", f"port {OPEN}", "port_security_enabled", "true", "false"),
        ("cloud", "sec group registry", "rule egress IPv4 any to anywhere", "present", "missing"),
        ("cloud", "sec group nodes", "rule ingress IPv4 tcp 8080-8080 from anywhere", "absent", "present"),
        ("cloud", f"subnet {platform}", "enable_dhcp", "true", "false"),
        ("cloud", f"instance {INTERFACE}", f"interface {address}", "absent", "present"),
    }
    return CloudDrift(rows, str(port.id))


def changed_parts(context: SiteContext) -> set[str]:
    """Parts, as tests/lab/identities.py names them, that have another identity after the repair."""
    return {f"rule {context.site.name}-registry: egress IPv4 None None-None None"}


def as_declared(context: SiteContext, cloud: Connection, foreign: CloudDrift) -> bool:
    """Whether neutron itself has it as declared again; fails with what differs."""
    network: Any = cloud.network
    ports = {port.name: port for port in network.ports() if port.name in (GUEST, OPEN)}
    assert ports[OPEN].is_port_security_enabled
    assert ports[OPEN].security_group_ids
    default = {str(group.id) for group in network.security_groups(name="default")}
    assert not default & set(ports[GUEST].security_group_ids)
    assert context.site.cloud is not None
    assert next(network.subnets(name=context.site.cloud.networks[0].name)).is_dhcp_enabled
    left = network.find_port(foreign.port)
    assert left is None or not left.device_id
    return True
