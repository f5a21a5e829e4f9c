"""The network agent's rulesets, read by the real nft and the kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from strata_lab.network import nft
from strata_lab.network.attachments import attachments
from strata_lab.network.filtering import filter_table
from strata_lab.network.model import State
from strata_lab.network.routing import Surroundings, routing_table

from ...unit.lab import network_objects as small

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="nft reads rules as root only"),
    pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed: apt-get install nftables"),
]

ROUTER = {"id": "r", "subnets": [small.BLUE_SUBNET, small.GREEN_SUBNET], "external": True}
FLOATING = [
    {"address": f"10.87.0.{128 + i}", "fixed_address": f"10.1.0.{11 + i}", "network_id": small.PUBLIC} for i in range(2)
]


def ruleset(tmp_path: Path, state: State) -> dict[tuple[str, str], str]:
    """Both tables."""
    small.write_records(tmp_path / "results")
    attached = attachments(tmp_path / "results", "lab")
    around = Surroundings("10.87.0.10", "cni-podman0", ("eth0",), ("10.255.0.53", "2001:db8::53"))
    around = replace(around, backup_store="10.87.0.9", clients=("10.1.0.0/24",))
    return {
        ("bridge", "strata-lab"): filter_table("lab", state, attached),
        ("inet", "strata-lab"): routing_table("lab", state, attached, around),
    }


@pytest.mark.parametrize(
    "objects",
    [
        small.objects(),
        small.objects(ports=[], groups={}),
        small.objects(routers=[ROUTER]),
        small.objects(routers=[ROUTER], floating_ips=FLOATING),
        small.objects(ports=[small.port(1, small.BLUE, "10.1.0.11", port_security_enabled=False)]),
        small.objects(
            groups={
                small.WEB: [
                    small.rule(direction, ethertype=family, protocol=protocol, port_range_min=low, port_range_max=high)
                    for direction in ("ingress", "egress")
                    for family in ("IPv4", "IPv6")
                    for protocol, low, high in (
                        *((None, None, None), ("any", None, None), ("tcp", 22, 22), ("udp", 1, 65535), ("sctp", 5, 9)),
                        *(("vrrp", None, None), ("112", None, None), ("6", 80, 90), ("icmp", 8, 0), ("icmp", 3, None)),
                        *(("ipv6-icmp", 128, None), ("gre", None, None), ("esp", None, None)),
                    )
                ]
            }
        ),
    ],
    ids=["groups", "nothing", "router", "floating", "no port security", "protocols"],
)
def test_the_kernel_takes_it(tmp_path: Path, objects: dict[str, object]) -> None:
    """`nft --check` asks the kernel, and changes nothing."""
    text = nft.replacement(ruleset(tmp_path, State.parse(objects)))
    done = subprocess.run(["nft", "--check", "--file", "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_kernel_takes_five_hundred_ports(tmp_path: Path) -> None:
    """As many as a big site has, within a generous limit."""
    ports = [
        small.port(i % 250, small.BLUE, f"10.1.{i // 250}.{i % 250}", security_groups=[small.WEB]) for i in range(500)
    ]
    state = State.parse(small.objects(ports=ports))
    directory = tmp_path / "results"
    small.write_records(directory)
    attached = [
        type(a)(a.network_id, a.bridge, f"veth{i}", f"10.1.{i // 250}.{i % 250}")
        for a in attachments(directory, "lab")[:1]
        for i in range(500)
    ]
    text = nft.replacement({("bridge", "strata-lab"): filter_table("lab", state, attached)})
    check = ["nft", "--check", "--file", "-"]
    done = subprocess.run(check, input=text, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
