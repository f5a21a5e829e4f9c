"""A small cloud for the tests of the network agent: two networks, three ports, two groups."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

BLUE, GREEN = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
BLUE_SUBNET, GREEN_SUBNET = "bbbbbbbb-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
PUBLIC, PUBLIC_SUBNET = "aaaaaaaa-0000-4000-8000-000000000009", "bbbbbbbb-0000-4000-8000-000000000009"
WEB, CLIENTS = "cccccccc-0000-4000-8000-000000000001", "cccccccc-0000-4000-8000-000000000002"
NUMBERS = "dddddddd-0000-4000-8000-000000000001"


def port(number: int, network: str, address: str, **changes: Any) -> dict[str, Any]:
    """A port as the mechanism driver writes it."""
    fields: dict[str, Any] = {
        "id": f"eeeeeeee-0000-4000-8000-{number:012d}",
        "network_id": network,
        "mac_address": f"fa:16:3e:00:00:{number:02x}",
        "fixed_ips": [address],
        "allowed_address_pairs": [],
        "security_groups": [],
        "port_security_enabled": True,
        "admin_state_up": True,
        "device_id": f"instance-{number}",
        "device_owner": "compute:nova",
        "project_id": "project",
    }
    return fields | changes


def rule(direction: str = "ingress", **changes: Any) -> dict[str, Any]:
    """A rule as the mechanism driver writes it."""
    keys = ("protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id")
    empty = dict.fromkeys((*keys, "remote_address_group_id"))
    return {"direction": direction, "ethertype": "IPv4"} | empty | changes


def objects(**changes: Any) -> dict[str, Any]:
    """The whole file."""
    web = [
        rule(protocol="tcp", port_range_min=80, port_range_max=80, remote_group_id=CLIENTS),
        rule(protocol="tcp", port_range_min=8000, port_range_max=8100, remote_ip_prefix="192.0.2.0/24"),
        rule(protocol="icmp", port_range_min=8, port_range_max=0, remote_ip_prefix="0.0.0.0/0"),
        rule(protocol="udp", port_range_min=53, port_range_max=53, remote_address_group_id=NUMBERS),
        rule("egress"),
        rule("egress", ethertype="IPv6"),
    ]
    fields: dict[str, Any] = {
        "subnets": [
            {"id": BLUE_SUBNET, "network_id": BLUE, "cidr": "10.1.0.0/24", "gateway_ip": "10.1.0.1"},
            {"id": GREEN_SUBNET, "network_id": GREEN, "cidr": "10.2.0.0/24", "gateway_ip": "10.2.0.1"},
        ],
        "external_subnets": [
            {"id": PUBLIC_SUBNET, "network_id": PUBLIC, "cidr": "10.87.0.0/24", "gateway_ip": "10.87.0.1"}
        ],
        "ports": [
            port(1, BLUE, "10.1.0.11", security_groups=[WEB]),
            port(
                *(2, BLUE, "10.1.0.12"),
                security_groups=[CLIENTS],
                allowed_address_pairs=[{"mac_address": "fa:16:3e:00:00:02", "ip_address": "10.244.0.0/16"}],
            ),
            port(3, GREEN, "10.2.0.13", security_groups=[CLIENTS]),
        ],
        "groups": {WEB: web, CLIENTS: [rule("egress"), rule("egress", ethertype="IPv6")]},
        "address_groups": {NUMBERS: ["198.51.100.0/24", "2001:db8::/64"]},
        "routers": [],
        "floating_ips": [],
    }
    return fields | changes


def record(site: str, network: str, bridge: str, interface: str, address: str) -> dict[str, Any]:
    """What podman's network plugins keep of one interface."""
    labels = {"strata.site": site, "strata.neutron_network": network}
    config = base64.b64encode(json.dumps({"args": {"podman_labels": labels}}).encode()).decode()
    result = {
        "interfaces": [{"name": bridge}, {"name": interface}, {"name": "eth0", "sandbox": "/run/netns/x"}],
        "ips": [{"address": f"{address}/24"}],
    }
    return {"kind": "cniCacheV1", "config": config, "result": result}


def write_records(directory: Path, site: str = "lab") -> None:
    """The interfaces of the three ports, and one of somebody else."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, entry in {
        "one": record(site, BLUE, "cni-podman1", "veth1", "10.1.0.11"),
        "two": record(site, BLUE, "cni-podman1", "veth2", "10.1.0.12"),
        "three": record(site, GREEN, "cni-podman2", "veth3", "10.2.0.13"),
        "other": record("other", BLUE, "cni-podman9", "veth9", "10.9.0.9"),
    }.items():
        (directory / name).write_text(json.dumps(entry))
