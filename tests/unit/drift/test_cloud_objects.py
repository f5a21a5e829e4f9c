"""Drift of OpenStack's objects that the provider does not see, and its repair."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from openstack.exceptions import NotFoundException

from strata.drift import instance_ports, instances, network
from strata.drift.made import Difference, Made, MadeObjects
from strata.site.paths import REPOSITORY

PROJECT = "project"
RULE: dict[str, Any] = {"protocol": None, "port_range_min": None, "port_range_max": None, "remote_ip_prefix": None}
RULE |= {"remote_group_id": None, "remote_address_group_id": None, "direction": "egress"}
TYPES = {"Instance": "compute/instance", "SecGroup": "networking/secGroup", "SecGroupRule": "networking/secGroupRule"}


def made(*objects: tuple[str, str, Mapping[str, Any], Mapping[str, Any]]) -> MadeObjects:
    """Type, id (and name), inputs, outputs."""
    by_kind: dict[str, dict[str, Made]] = {}
    for kind, identifier, inputs, outputs in objects:
        where = TYPES.get(kind, f"networking/{kind[0].lower()}{kind[1:]}")
        resource = Made(f"openstack:{where}:{kind}", identifier, identifier, inputs, outputs)
        by_kind.setdefault(kind, {})[identifier] = resource
    return by_kind


def rule(identifier: str, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(id=identifier, security_group_id="nodes", **{**RULE, "ether_type": "IPv4", **values})


class Cloud:
    """neutron and nova with what a test sets; notes each write."""

    def __init__(self) -> None:
        self.has: dict[str, list[Any]] = {"extensions": [SimpleNamespace(alias="port-security")]}
        self.writes: list[tuple[Any, ...]] = []
        self.gone: set[str] = set()

    def find_port(self, identifier: str) -> Any:
        """The port, unless it is gone."""
        return None if identifier in self.gone else port(id=identifier)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("update_", "create_", "delete_", "remove_", "set_")):
            return lambda *a, **k: self.writes.append((name, *a, k))
        if name == "default_security_group_rules" and name not in self.has:
            raise NotFoundException("no such extension")

        def listed(**query: Any) -> list[Any]:
            device = query.get("device_id")
            return [item for item in self.has.get(name, []) if device is None or item.device_id == device]

        return listed


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def rows(differences: list[Difference]) -> list[tuple[str, str, str, str]]:
    return [(d.object, d.property, d.wanted, d.found) for difference in differences for d in difference.drift()]


def port(**values: Any) -> SimpleNamespace:
    usual: dict[str, Any] = {
        "id": "port",
        "network_id": "net",
        "security_group_ids": ["nodes"],
        "device_owner": "compute:nova",
    }
    usual |= {"is_port_security_enabled": True, "fixed_ips": [{"subnet_id": "sub", "ip_address": "10.0.0.5"}]}
    return SimpleNamespace(**{**usual, "device_id": "server", "mac_address": "fa:16:3e:00:00:01", **values})


PORT = (
    "Port",
    "port",
    {"securityGroupIds": ["nodes"], "fixedIps": [{"subnetId": "sub"}]},
    {"allFixedIps": ["10.0.0.5"]},
)


def port_found(cloud: Cloud, *known: Any, **values: Any) -> list[Difference]:
    cloud.has |= {
        "ports": [port(**values)],
        "security_groups": [SimpleNamespace(id="nodes", name="lab-nodes"), SimpleNamespace(id="d", name="default")],
        "subnets": [SimpleNamespace(id="sub", network_id="net", cidr="10.0.0.0/24", ipv6_address_mode=None)],
    }
    return list(instance_ports.port_differences(cloud, made(PORT, *known), PROJECT))


def test_a_port_as_declared_has_no_drift(cloud: Cloud) -> None:
    assert port_found(cloud) == []


def test_a_foreign_group_on_a_port(cloud: Cloud) -> None:
    [difference] = port_found(cloud, security_group_ids=["nodes", "d"])
    assert rows([difference]) == [("port port", "security_groups", "lab-nodes", "default, lab-nodes")]
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [("update_port", "port", {"security_group_ids": ["nodes"]})]


def test_a_cloud_without_the_extension_has_no_port_security(cloud: Cloud) -> None:
    cloud.has["extensions"] = []
    assert port_found(cloud, is_port_security_enabled=False) == []


def test_an_imported_port_keeps_its_groups(cloud: Cloud) -> None:
    """The provider does not read them, so that the state has none until the first run after `strata adopt`."""
    port_found(cloud)
    imported = made(("Port", "port", {}, {"allFixedIps": ["10.0.0.5"]}))
    assert list(instance_ports.port_differences(cloud, imported, PROJECT)) == []


def test_port_security_comes_back_with_the_groups(cloud: Cloud) -> None:
    """neutron refuses one without the other."""
    [difference] = port_found(cloud, security_group_ids=[], is_port_security_enabled=False)
    assert {row[1] for row in rows([difference])} == {"security_groups", "port_security_enabled"}
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [
        ("update_port", "port", {"security_group_ids": ["nodes"], "is_port_security_enabled": True})
    ]


def test_another_address_is_given_back(cloud: Cloud) -> None:
    [difference] = port_found(cloud, fixed_ips=[{"subnet_id": "sub", "ip_address": "10.0.0.9"}])
    assert rows([difference]) == [("port port", "fixed_ips", "10.0.0.5", "10.0.0.9")]
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes[0][2] == {"fixed_ips": [{"subnet_id": "sub", "ip_address": "10.0.0.5"}]}


def test_an_ipv6_address_of_slaac_is_asked_for_by_its_subnet() -> None:
    subnet = SimpleNamespace(id="six", network_id="net", cidr="2001:db8::/64", ipv6_address_mode="slaac")
    assert instance_ports._fixed_ip("2001:db8::1", "net", [subnet]) == {"subnet_id": "six"}


def test_a_foreign_floating_ip_is_taken_off(cloud: Cloud) -> None:
    cloud.has["ips"] = [SimpleNamespace(id="ip", port_id="port", floating_ip_address="192.0.2.7")]
    [difference] = port_found(cloud)
    assert rows([difference]) == [("port port", "floating IP 192.0.2.7", "absent", "present")]
    assert port_found(cloud, ("FloatingIp", "ip", {}, {})) == []


def test_dhcp_off_and_host_routes(cloud: Cloud) -> None:
    """The engine keeps a default that a refresh found changed: the state then states false too."""
    inputs = {"enableDhcp": False, "dnsNameservers": ["192.0.2.1"], "__defaults": ["enableDhcp"]}
    subnet = SimpleNamespace(
        id="sub",
        is_dhcp_enabled=False,
        dns_nameservers=["192.0.2.1"],
        host_routes=[{"nexthop": "x"}],
        service_types=None,
    )
    cloud.has["subnets"] = [subnet]
    [difference] = network.network_differences(cloud, made(("Subnet", "sub", inputs, {})), PROJECT)
    assert [row[1:] for row in rows([difference])] == [
        ("enable_dhcp", "true", "false"),
        ("host_routes", "none", '[{"nexthop": "x"}]'),
    ]
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [("update_subnet", "sub", {"is_dhcp_enabled": True, "host_routes": []})]
    # the external subnet of a lab has none on purpose
    external = made(("Subnet", "sub", {"enableDhcp": False, "dnsNameservers": ["192.0.2.1"], "__defaults": []}, {}))
    subnet.host_routes = []
    assert list(network.network_differences(cloud, external, PROJECT)) == []


def test_a_shared_network_without_port_security(cloud: Cloud) -> None:
    shared = SimpleNamespace(id="net", is_shared=True, is_port_security_enabled=False, is_router_external=False)
    cloud.has["networks"] = [shared, SimpleNamespace(id="other")]
    [difference] = network.network_differences(cloud, made(("Network", "net", {}, {})), PROJECT)
    assert [row[1:] for row in rows([difference])] == [
        ("shared", "false", "true"),
        ("port_security_enabled", "true", "false"),
    ]
    # without the extension, openstacksdk shows False all the same
    cloud.has["extensions"], shared.is_shared = [], False
    assert list(network.network_differences(cloud, made(("Network", "net", {}, {})), PROJECT)) == []


def test_foreign_routes_and_interfaces_of_a_router(cloud: Cloud) -> None:
    cloud.has |= {
        "routers": [SimpleNamespace(id="router", routes=[{"destination": "10.9.0.0/24", "nexthop": "10.0.0.9"}])],
        "ports": [
            port(id=name, device_id="router", device_owner="network:router_interface") for name in ("own", "foreign")
        ],
    }
    known = made(("Router", "router", {}, {}), ("RouterInterface", "own", {}, {}))
    differences = list(network.network_differences(cloud, known, PROJECT))
    assert [row[1] for row in rows(differences)] == ["routes", "interface 10.0.0.5"]
    for difference in differences:
        assert difference.repair is not None
        difference.repair()
    assert cloud.writes == [
        ("update_router", "router", {"routes": []}),
        ("remove_interface_from_router", "router", {"port": "foreign"}),
    ]


def group_found(cloud: Cloud, *rules: Any) -> list[Difference]:
    cloud.has |= {
        "security_groups": [SimpleNamespace(id="nodes", name="lab-nodes", stateful=True)],
        "security_group_rules": list(rules),
    }
    known = made(("SecGroup", "nodes", {}, {}), ("SecGroupRule", "declared", {}, {}))
    return list(network.network_differences(cloud, known, PROJECT))


def test_foreign_rules_and_missing_egress(cloud: Cloud) -> None:
    egress = rule("four"), rule("six", ether_type="IPv6", remote_ip_prefix="::/0")
    declared = rule("declared", direction="ingress", protocol="tcp")
    assert group_found(cloud, *egress, declared) == []
    foreign = rule("x", direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22)
    differences = group_found(cloud, egress[1], declared, foreign)
    assert rows(differences) == [
        ("sec group nodes", "rule ingress IPv4 tcp 22-22 from anywhere", "absent", "present"),
        ("sec group nodes", "rule egress IPv4 any to anywhere", "present", "missing"),
    ]
    for difference in differences:
        assert difference.repair is not None
        difference.repair()
    given = {"security_group_id": "nodes", "project_id": PROJECT, "direction": "egress", "ether_type": "IPv4"}
    assert cloud.writes == [("delete_security_group_rule", "x", {}), ("create_security_group_rule", given)]


def test_what_an_administrator_gives_to_new_groups_is_not_drift(cloud: Cloud) -> None:
    cloud.has["default_security_group_rules"] = [
        SimpleNamespace(**RULE | {"protocol": "tcp"}, ether_type="IPv4", used_in_non_default_sg=True)
    ]
    assert group_found(cloud, rule("narrow", protocol="tcp")) == []


def server(**values: Any) -> SimpleNamespace:
    usual: dict[str, Any] = {"id": "server", "metadata": {"strata_site": "lab", "own": "x"}, "is_locked": False}
    usual |= {"flavor": SimpleNamespace(id=None, name="cpu.small"), "image": SimpleNamespace(id="image")}
    return SimpleNamespace(**{**usual, "attached_volumes": [], "addresses": {}, **values})


INSTANCE = {
    "networks": [{"port": "port"}],
    "metadata": {"strata_site": "lab", "__defaults": []},
    "flavorId": "1",
    "imageId": "image",
}


def instance_found(cloud: Cloud, instance: Any, *attached: Any) -> list[Difference]:
    cloud.has["ports"] = list(attached)
    known = made(PORT, ("Instance", "server", INSTANCE, {}), ("Volume", "ours", {}, {}))
    connection: Any = SimpleNamespace(network=cloud, compute=cloud)
    return list(instances.instance_differences(connection, known, [instance], PROJECT))


def test_an_instance_as_declared_has_no_drift(cloud: Cloud) -> None:
    volume = SimpleNamespace(id="ours", delete_on_termination=False)
    assert instance_found(cloud, server(attached_volumes=[volume]), port()) == []


def test_a_foreign_interface_that_nova_does_not_know_is_unbound(cloud: Cloud) -> None:
    [difference] = instance_found(cloud, server(), port(), port(id="foreign", fixed_ips=[{"ip_address": "10.0.0.77"}]))
    assert rows([difference]) == [("instance server", "interface 10.0.0.77", "absent", "present")]
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [("update_port", "foreign", {"device_id": "", "device_owner": ""})]


def test_nova_detaches_a_foreign_interface(cloud: Cloud) -> None:
    addresses = {"net": [{"addr": "10.0.0.77", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:02"}]}
    foreign = port(id="foreign", mac_address="fa:16:3e:00:00:02")
    [difference] = instance_found(cloud, server(addresses=addresses), port(), foreign)
    cloud.gone.add("foreign")
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [("delete_server_interface", "foreign", {"server": "server"})]


def test_a_detached_port_is_attached_again(cloud: Cloud) -> None:
    [difference] = instance_found(cloud, server())
    assert rows([difference]) == [("instance server", "interface port", "present", "missing")]
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [("create_server_interface", "server", {"port_id": "port"})]


def test_metadata_is_repaired_and_others_keys_stay(cloud: Cloud) -> None:
    [difference] = instance_found(cloud, server(metadata={"strata_site": "other", "own": "x"}), port())
    assert rows([difference]) == [("instance server", "metadata strata_site", "lab", "other")]
    assert difference.repair is not None
    difference.repair()
    assert cloud.writes == [("set_server_metadata", "server", {"strata_site": "lab"})]


def test_locks_and_foreign_volumes_are_named_with_the_command(cloud: Cloud) -> None:
    volume = SimpleNamespace(id="foreign", delete_on_termination=False)
    differences = instance_found(cloud, server(is_locked=True, attached_volumes=[volume]), port())
    assert rows(differences) == [
        ("instance server", "volume foreign", "absent (openstack server remove volume server foreign)", "present"),
        ("instance server", "locked", "false (openstack server unlock server)", "true"),
    ]
    assert [difference.repair for difference in differences] == [None, None]


@pytest.mark.parametrize(
    ("values", "disrupted"),
    [
        ({}, []),
        ({"flavor": SimpleNamespace(id="1", name=None)}, []),
        ({"flavor": SimpleNamespace(id="2", name=None)}, ["server"]),
        ({"flavor": SimpleNamespace(id=None, name="gpu")}, ["server"]),
        ({"image": SimpleNamespace(id="other")}, ["server"]),
        ({"image": None}, []),
    ],
)
def test_a_resize_outside_strata_needs_approval(cloud: Cloud, values: dict[str, Any], disrupted: list[str]) -> None:
    """Newer versions of nova's API show the flavor's name, older ones its id."""
    cloud.has["flavors"] = [SimpleNamespace(id="1", name="cpu.small"), SimpleNamespace(id="2", name="gpu")]
    connection: Any = SimpleNamespace(compute=cloud)
    known = made(("Instance", "server", INSTANCE, {}))
    assert instances.disruptive_drift(connection, known, [server(**values)]) == disrupted


def documented() -> dict[str, list[str]]:
    """Resource to the other cells of its row in docs/drift.md."""
    lines = (REPOSITORY / "docs" / "drift.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in table if "." in cells[0]}


def test_each_resource_of_the_program_has_a_row() -> None:
    """A resource type that the program starts to create fails here until docs/drift.md has what is compared."""
    files = [*(REPOSITORY / "src/strata/cloud").glob("*.py"), REPOSITORY / "pulumi/cloud/__main__.py"]
    used = {name for file in files for name in re.findall(r"openstack\.(\w+\.[A-Z]\w*)\(", file.read_text())}
    assert {name for name in used if not name.endswith("Args")} == documented().keys()


def test_the_table_names_what_is_compared() -> None:
    compared = {kind: set(properties) for kind, properties in network.DEFAULTS.items()}
    compared["Router"] |= {"interface"}
    compared["SecGroup"] |= {"rule"}
    compared |= {"Port": set(instance_ports.COMPARED), "Instance": set(instances.COMPARED)}
    named = {name.partition(".")[2]: set(re.findall("`([^`]+)`", cells[1])) for name, cells in documented().items()}
    assert {kind: properties for kind, properties in named.items() if properties} == compared
