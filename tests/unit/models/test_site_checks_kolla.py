"""Errors in a cloud by Kolla-Ansible that its own prechecks, or nova, would find after minutes on the hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata.site_file.problems import Problem

from .conftest import Edit

TEXT = (REPOSITORY / "tests" / "corpus" / "complete" / "kolla.yaml").read_text()
CONTROLLER = "{name: control01, address: 10.20.0.11}"
NODE = TEXT[TEXT.index("  hypervisors:\n") : TEXT.index("  project:")]
DEVICES = "cloud.hypervisors[0].pci_passthrough"
MACHINES = "hosts:\n  machines: [{name: m1, address: 192.0.2.20, roles: [registry]}]\n"
CASES: dict[str, tuple[Sequence[Edit], str, str, str]] = {
    "virtual address outside": (
        [("internal: {address: 10.20.0.10", "internal: {address: 10.21.0.10")],
        "cloud.kolla.internal",
        "which is not in network 10.20.0.0/24",
        "in 10.20.0.0/24",
    ),
    "virtual address of a controller": (
        [("internal: {address: 10.20.0.10", "internal: {address: 10.20.0.11")],
        "cloud.kolla.internal",
        "has the address of a controller, 10.20.0.11",
        "an address that no host has",
    ),
    "virtual address among floating IPs": (
        [("external: {address: 192.0.2.20", "external: {address: 198.51.100.150")],
        "cloud.kolla.external",
        "has the address 198.51.100.150, which a floating IP could get",
        "outside of external_network.addresses",
    ),
    "gateway among floating IPs": (
        [("gateway: 198.51.100.254", "gateway: 198.51.100.120")],
        "cloud.kolla.external_network.addresses",
        "holds the gateway 198.51.100.120",
        "leave the gateway out of it",
    ),
    "image without a digest": (
        [("      checksum: 8e0d2c5a3b7f49618e0d2c5a3b7f49618e0d2c5a3b7f49618e0d2c5a3b7f4961\n", "")],
        "cloud.images[0].checksum",
        "is required with url",
        "SHA512SUMS",
    ),
    "image of an unknown format": (
        [("debian-13-genericcloud-amd64.qcow2", "debian-13-genericcloud-amd64.tar.xz")],
        "cloud.images[0].url",
        "must end in .qcow2 or .raw",
        "another file",
    ),
    "virtual address of a hypervisor": (
        [("internal: {address: 10.20.0.10", "internal: {address: 10.20.0.51")],
        "cloud.hypervisors",
        "node-1 has the address of cloud.kolla.internal",
        "an address of its own",
    ),
    "virtual address of a machine": (
        [("hosts:\n", MACHINES)],
        "cloud.kolla.external.address",
        "is the address of hosts.machines[0].address too",
        "an address that no host has",
    ),
    "virtual address of a monitor": (
        [("monitors: [10.20.0.31]", "monitors: [10.20.0.10]")],
        "cloud.kolla.internal.address",
        "is the address of cloud.kolla.ceph.monitors[0] too",
        "an address that no host has",
    ),
    "virtual address in a network of instances": (
        [("external: {address: 192.0.2.20", "external: {address: 10.30.0.20")],
        "cloud.kolla.external.address",
        "is in cloud.networks[0].cidr (10.30.0.0/24)",
        "an address outside of it",
    ),
    "virtual address is the broadcast address": (
        [("internal: {address: 10.20.0.10", "internal: {address: 10.20.0.255")],
        "cloud.kolla.internal",
        "network or broadcast address of 10.20.0.0/24",
        "an address that a host can have",
    ),
    "one virtual address": (
        [("external: {address: 192.0.2.20", "external: {address: 10.20.0.10")],
        "cloud.kolla.external",
        "has the address of internal, 10.20.0.10",
        "an address of its own",
    ),
    "one name for two addresses": (
        [("name: internal.cloud.example.org", "name: cloud.example.org")],
        "cloud.kolla.external",
        "has the name of internal, cloud.example.org",
        "a name of its own",
    ),
    "interface that does not exist on Linux": (
        [("api: bond0,", "api: a-name-of-an-interface,")],
        "cloud.kolla.interfaces.api",
        "",
        "",
    ),
    "provider networks on the hosts' own interface": (
        [("external: eno4}", "external: bond0}")],
        "cloud.kolla.interfaces.external",
        "is the interface of api too, bond0",
        "an interface without addresses",
    ),
    "no controllers": (
        [(f"[{CONTROLLER}]", "[]")],
        "cloud.kolla.controllers",
        "",
        "",
    ),
    "two controllers": (
        [(CONTROLLER, f"{CONTROLLER}, {{name: control02, address: 10.20.0.12}}")],
        "cloud.kolla.controllers",
        "odd number for a majority",
        "1, 3 or 5",
    ),
    "no hypervisors": (
        [(NODE, "  hypervisors: []\n")],
        "cloud.hypervisors",
        "is required for deployment: kolla",
        "list the hosts that run instances",
    ),
    "a member's rights": (
        [(NODE, f"  administrator: false\n{NODE}")],
        "cloud.administrator",
        "is true for deployment: kolla",
        "remove the line",
    ),
    "no network at all": (
        [("    network: 10.20.0.0/24\n", "")],
        "cloud.kolla.network",
        "",
        "",
    ),
    "Ceph without a monitor": (
        [("monitors: [10.20.0.31]", "monitors: []")],
        "cloud.kolla.ceph.monitors",
        "",
        "",
    ),
    "Ceph without its users' keys": (
        [("  - {name: kolla_ceph_cinder_key, source: environment}\n", "")],
        "cloud.kolla.ceph",
        "kolla_ceph_cinder_key",
        "source: environment",
    ),
    "registry with images for tests": (
        [("registry: registry.example.org:5000", "registry: quay.io")],
        "cloud.kolla.registry",
        "images for tests only",
        "mirrors them",
    ),
    "an address of no PCI device": (
        [('"0000:af:00.0"', '"AF:00.0"')],
        f"{DEVICES}.addresses[3]",
        "must be the address of a PCI device",
        'did you mean "0000:af:00.0"?',
    ),
    "a card that is chosen and unused": (
        [('unused: ["0000:5f:00.0"', 'unused: ["0000:5e:00.0"')],
        f"{DEVICES}.unused[0]",
        "0000:5e:00.0 is in addresses too",
        "remove it from one of the two lists",
    ),
    "a card that is chosen twice": (
        [('"0000:af:00.0"', '"0000:86:00.0"')],
        f"{DEVICES}.addresses[3]",
        "duplicate: 0000:86:00.0",
        "remove this entry",
    ),
    "a device that is unused twice": (
        [('unused: ["0000:5f:00.0"', 'unused: ["0000:5f:00.0", "0000:5f:00.0"')],
        f"{DEVICES}.unused[1]",
        "duplicate: 0000:5f:00.0",
        "remove this entry",
    ),
    "fewer addresses than cards": (
        [(', "0000:af:00.0"', "")],
        f"{DEVICES}.addresses",
        "has 3 addresses, and accelerators of this host declares 4 cards",
        "4 addresses",
    ),
    "more addresses than cards": (
        [('"0000:af:00.0"', '"0000:af:00.0", "0000:d8:00.0"')],
        f"{DEVICES}.addresses",
        "has 5 addresses",
        "4 addresses",
    ),
    "an unused device that nova would hand out": (
        [('addresses: ["0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0", "0000:af:00.0"]', "addresses: []")],
        f"{DEVICES}.unused",
        "nova would give an unused card of the same kind to instances",
        "addresses of all cards",
    ),
    "devices of a machine without the role": (
        [("hosts:\n", MACHINES.replace("20, roles: [registry]", "21, roles: [registry], pci_passthrough: {}"))],
        "hosts.machines[0].pci_passthrough",
        "is for hosts with the role pci_passthrough",
        "add the role",
    ),
    "a card that is neither built in nor described": (
        [("accelerators: {a100: 2, mi300x: 2}", "accelerators: {a100: 2, mi250: 2}")],
        "cloud.hypervisors[0].accelerators.mi250",
        "not an accelerator that Strata knows",
        "one of",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused_before_anything_starts(
    case: str, site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    edits, key, why, fix = CASES[case]
    assert problems_of(site_file(text=TEXT)) == ()
    problems = problems_of(site_file(*edits, text=TEXT))
    assert key in {p.key for p in problems}, [str(p) for p in problems]
    problem = next(p for p in problems if p.key == key)
    assert len(problems) == 1, [str(p) for p in problems]
    assert why in problem.why
    assert fix in problem.fix
    assert problem.fix
    assert problem.line
