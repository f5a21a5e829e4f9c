"""Networks that somebody uses on this machine."""

from __future__ import annotations

import json
import shutil
from ipaddress import ip_network
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata_lab import addresses

IPV4 = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
cni-podman1\t0000570A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
tun0\t0000600A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
IPV6 = """fd000000000000000000000000000000 40 00000000000000000000000000000000 00 0 00000100 1 0 00000001 eth0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 0 00000100 1 0 00000001 eth0
"""
PODMAN = [
    {"name": "podman", "network_interface": "cni-podman0", "subnets": [{"subnet": "10.88.0.0/16"}]},
    {
        "name": "strata-lab-control",
        "network_interface": "cni-podman1",
        "subnets": [{"subnet": "10.87.0.0/24"}],
        "labels": {"strata.site": "lab"},
    },
]
DEVICES = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8}, {"local": "10.66.0.10", "prefixlen": 32}]},
    {"ifname": "eth0", "addr_info": [{"local": "192.0.2.2", "prefixlen": 24}, {"local": "::1", "prefixlen": 128}]},
]


def like_lab(directory: Path, *changes: tuple[str, str]) -> Path:
    """The lab's file with some text changed, and its catalogue beside it."""
    file = directory / "site.yaml"
    text = find_site("lab").read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    shutil.copy(find_site("lab").parent / "catalogue.json", directory)
    return file


@pytest.fixture(autouse=True)
def machine(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a running lab, a tunnel and a name server."""
    for name, text in (("v4", IPV4), ("v6", IPV6), ("resolv", "nameserver 10.255.255.53\nnameserver 127.0.0.1\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(addresses, "ROUTES", (tmp_path / "v4", tmp_path / "v6"))
    monkeypatch.setattr(addresses, "RESOLVER", tmp_path / "resolv")
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/podman")
    monkeypatch.setattr(addresses, "podman", lambda *_arguments: json.dumps(PODMAN))
    monkeypatch.setattr(addresses, "ADDRESSES", ("echo", json.dumps(DEVICES)))


def test_everything_on_the_machine_counts() -> None:
    in_use = {str(used.network): used.by for used in addresses.networks_in_use() if used.site is None}
    assert in_use == {
        "10.88.0.0/16": "podman's network podman",
        "10.96.0.0/16": "a route over tun0",
        "fd00::/64": "a route over eth0",
        "10.66.0.10/32": "an address of this machine on lo",
        "10.255.255.53/32": "a name server of this machine",
    }
    assert ip_network("10.77.0.0/24") in [used.network for used in addresses.networks_in_use() if used.site == "lab"]


def test_file_elsewhere_counts_until_it_is_gone(tmp_path: Path) -> None:
    file = like_lab(tmp_path, ("name: lab\n", "name: other\n"), ("10.77.0", "10.70.0"))
    addresses.remember_file(file)
    addresses.remember_file(file)
    assert [used for used in addresses.networks_in_use() if used.network == ip_network("10.70.0.0/24")] == [
        addresses.InUse(ip_network("10.70.0.0/24"), "a network of site other", "other")
    ]
    file.unlink()
    assert all(used.site != "other" for used in addresses.networks_in_use())


def test_own_networks_are_not_conflicts() -> None:
    addresses.check_networks(load_site(find_site("lab")))


@pytest.mark.parametrize(
    ("network", "by"),
    [
        ("10.88.3.0/24", "podman's network podman"),
        ("10.96.0.0/24", "a route over tun0"),
        ("10.255.255.0/24", "a name server of this machine"),
        ("10.66.0.0/24", "an address of this machine on lo"),
    ],
)
def test_taken_network_is_named_with_its_owner(tmp_path: Path, network: str, by: str) -> None:
    file = like_lab(tmp_path, ("10.77.0.0/24", network), ("10.96.0.0/16", "10.240.0.0/16"))
    with pytest.raises(UserError, match=r"cloud\.networks\.platform\.cidr") as caught:
        addresses.check_networks(load_site(file))
    assert network in caught.value.message
    assert by in caught.value.message


def test_networks_of_another_site_are_refused(tmp_path: Path) -> None:
    file = like_lab(tmp_path, ("name: lab\n", "name: second\n"))
    with pytest.raises(UserError, match="strata-lab-control of site lab"):
        addresses.check_networks(load_site(file))
