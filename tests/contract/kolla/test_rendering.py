"""Kolla-Ansible takes the files made from site.yaml, and the real services read what it renders from them."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.cloud.arguments import flavor_arguments
from strata.cloud.card_placement import MOST_CANDIDATES
from strata.installers.kolla.configuration import configuration_directory, package_groups, write_configuration
from strata.installers.kolla.files import public_files, section
from strata.models.site import Site
from strata.site_file.checks.host_names import KOLLA_GROUPS
from strata.toolchain.python_environment import Environment

from .conftest import Render
from .rendering import HERE, UNUSED, Rendering


def read_nova(python: Path, file: Path, site: Site, address: str = "0000:3b:00.0") -> dict[str, Any]:
    """What nova understands of a nova.conf; it is shown every card that the site can name, at an address."""
    cloud, _ = section(site)
    cards = {card.pci_id: card.device_type for card in site.accelerators.values()}
    flavors = {f.name: f.extra_specs() for f in flavor_arguments(cloud)}
    command = [str(python), str(HERE / "nova_reads.py"), str(file), json.dumps(cards), json.dumps(flavors), address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def check_nova(rendering: Rendering, python: Path) -> None:
    """Each hypervisor takes exactly its own cards; controllers and hypervisors resolve each flavor's aliases."""
    site = rendering.context.site
    (cloud, kolla), known = section(site), site.accelerators
    places: dict[tuple[str, str], dict[str, int]] = {("nova-scheduler", c.name): {} for c in kolla.controllers[:1]}
    places |= {("nova-compute", h.name): dict(h.accelerators) for h in cloud.hypervisors}
    chosen = {h.name: h.pci_passthrough.addresses for h in cloud.hypervisors if h.pci_passthrough}
    for (service, host), accelerators in places.items():
        configuration = read_nova(python, rendering.file(host, service, "nova.conf"), site)
        assert configuration["wrong"] == [], host
        if host not in chosen:
            assert configuration["takes"] == sorted(known[kind].pci_id for kind in accelerators), host
        for flavor in cloud.flavors:
            requested = [(n, known[kind]) for kind, n in flavor.accelerators.items()]
            assert configuration["requests"][flavor.name] == sorted(
                [n, card.vendor_id, card.product_id, card.device_type] for n, card in requested
            ), flavor.name
        assert configuration["unknown filters"] == []
        assert "PciPassthroughFilter" in configuration["filters"]
        assert configuration["placement"] == [True, service == "nova-compute"]
    for host, addresses in chosen.items():
        # a card of the same kind that stays with the host, or that nothing uses
        for address, expected in (*((chosen, True) for chosen in addresses), (UNUSED, False)):
            configuration = read_nova(python, rendering.file(host, "nova-compute", "nova.conf"), site, address)
            assert bool(configuration["takes"]) == expected, f"{host}: {address}"
    for hypervisor in cloud.hypervisors:
        if hypervisor.dedicated_cpus:
            configuration = read_nova(python, rendering.file(hypervisor.name, "nova-compute", "nova.conf"), site)
            assert configuration["dedicated"] == hypervisor.dedicated_cpus
            assert configuration["shared"].split(",") == [str(cpu) for cpu in hypervisor.shared_cpus]


@pytest.mark.xdist_group("kolla")
def test_nova_takes_built_in_and_described_cards(render: Render, openstack_python: Path, tmp_path: Path) -> None:
    """On one host by kind, on the other by address."""
    rendering = render("cnaf")
    stats = rendering.nova_configuration(tmp_path / "first.log")
    assert all(counts["changed"] for counts in stats.values()), stats
    check_nova(rendering, openstack_python)


@pytest.mark.xdist_group("kolla")
def test_names_are_those_of_the_pinned_package(kolla: Environment, render: Render) -> None:
    """Every key of globals.yml is a variable of Kolla-Ansible; its example inventory has the groups that hosts need."""
    package = kolla.share / "kolla-ansible" / "ansible"
    known: set[str] = set()
    for file in (*package.glob("group_vars/all/*.yml"), *package.glob("roles/*/defaults/main.yml")):
        known |= set(yaml.safe_load(file.read_text()) or {})
    used = {key for name in ("tacc", "cnaf") for key in _globals(render(name)) if name}
    assert used - known == set()
    groups = set(re.findall(r"^\[([^:\]]+)", package_groups(kolla), re.MULTILINE))
    assert {"deployment", "baremetal", "nova-api", "mariadb", "ovn-controller"} <= groups
    before = {"control", "network", "compute", "monitoring", "storage"}
    assert json.loads(KOLLA_GROUPS.read_text()) == sorted(groups | before)


def _globals(rendering: Rendering) -> dict[str, object]:
    variables: dict[str, object] = yaml.safe_load(public_files(rendering.context.site)["globals.yml"])
    return variables


@pytest.mark.xdist_group("kolla")
def test_the_second_configuration_changes_nothing_and_no_one_else_reads_it(render: Render) -> None:
    rendering = render("cnaf")
    directory = configuration_directory(rendering.context.paths)
    assert rendering.changed > 10
    stale = directory / "config" / "nova" / "gone.conf"
    stale.write_text("[DEFAULT]\n")
    assert write_configuration(rendering.context, rendering.environment) == 1
    assert not stale.exists()
    assert write_configuration(rendering.context, rendering.environment) == 0
    modes = {file.stat().st_mode & 0o777 for file in directory.rglob("*") if file.is_file()}
    assert modes == {0o600}
    keyring = directory / "config" / "cinder" / "cinder-volume" / "ceph.client.cinder.keyring"
    assert "key = key-of-CINDER" in keyring.read_text()


SERVICES = {
    "nova": ("nova-api/nova.conf", "nova-scheduler/nova.conf", "nova-conductor/nova.conf"),
    "neutron": ("neutron-server/neutron.conf",),
    "keystone": ("keystone/keystone.conf",),
    "glance": ("glance-api/glance-api.conf",),
    "placement": ("placement-api/placement.conf",),
}


@pytest.mark.nightly
@pytest.mark.xdist_group("kolla")
@pytest.mark.parametrize("name", ["tacc", "cnaf"])
def test_every_service_is_rendered_and_read(name: str, render: Render, openstack_python: Path, tmp_path: Path) -> None:
    rendering = render(name)
    first = rendering.genconfig(tmp_path / "first.log")
    assert first["ctl01"]["changed"] > 20
    check_nova(rendering, openstack_python)
    for service, files in SERVICES.items():
        for file in files:
            path = rendering.output / "ctl01" / file
            command = [str(openstack_python), str(HERE / "service_reads.py"), service, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
            output = json.loads(done.stdout)
            assert output["wrong"] == [], file
            assert output["read"] >= 20, file
    placement = configparser.ConfigParser(strict=False, interpolation=None)
    placement.read(rendering.output / "ctl01" / "placement-api" / "placement.conf")
    assert placement["placement"]["max_allocation_candidates"] == str(MOST_CANDIDATES)
    haproxy = rendering.output / "ctl01" / "haproxy"
    assert "BEGIN CERTIFICATE" in (haproxy / "haproxy.pem").read_text()
    keystone = configparser.ConfigParser(strict=False, interpolation=None)
    keystone.read(rendering.output / "ctl01" / "keystone" / "keystone.conf")
    assert keystone["token"]["provider"] == "fernet"
    second = rendering.genconfig(tmp_path / "second.log")
    assert {host: counts["changed"] for host, counts in second.items() if counts["changed"]} == {}
