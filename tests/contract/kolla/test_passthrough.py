"""Hypervisors of a Kolla cloud under the real Ansible, on a published machine's sysfs: reboots, refusals, record."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from strata.errors import UserError
from strata.installers.kolla import passthrough
from strata.installers.kolla.commands import Record
from strata.installers.kolla.configuration import configuration_directory
from strata.installers.kolla.passthrough import is_done, run_passthrough
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site

from ..pci_passthrough.sysfs import build

CARDS = {"rtx2080ti": 1}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """tacc with two hypervisors that are one machine, this one, whose sysfs is a published one."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in ("update-grub", "update-initramfs"):
        (programs / tool).write_text("#!/bin/sh\n")
        (programs / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    found = SiteContext.load(find_site("tacc"))
    assert found.site.cloud is not None
    hosts = [host for host in found.site.cloud.hypervisors if host.name in ("c01", "gpu01", "gpu02")]
    hosts = [host.model_copy(update={"accelerators": CARDS}) if host.accelerators else host for host in hosts]
    cloud = found.site.cloud.model_copy(update={"hypervisors": tuple(hosts)})
    found.paths.create()
    return SiteContext(found.site.model_copy(update={"cloud": cloud}), found.site_file, found.paths)


def run(context: SiteContext, tmp_path: Path) -> int:
    """Number of changes."""
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "pci_passthrough_etc": str(tmp_path / "etc"),
        "pci_passthrough_sysfs": str(tmp_path / "sys"),
        "pci_passthrough_cpuinfo": str(tmp_path / "cpuinfo"),
    }
    return run_passthrough(context, Silent(), variables=variables).changed


def inventory_of(context: SiteContext) -> dict[str, Any]:
    text = (configuration_directory(context.paths) / "passthrough.yml").read_text()
    hosts: dict[str, Any] = yaml.safe_load(text)["all"]["hosts"]
    return hosts


def test_hosts_with_cards_are_prepared_before_nova_and_recorded(context: SiteContext, tmp_path: Path) -> None:
    build(tmp_path, "ryzen", {"*": "vfio-pci"})
    assert not is_done(context)
    assert run(context, tmp_path) > 0
    assert {name: host["pci_passthrough_reboot"] for name, host in inventory_of(context).items()} == {
        "gpu01": True,
        "gpu02": True,
    }
    assert is_done(context)
    assert run(context, tmp_path) == 0
    with_another = context.site.model_copy(update={"cloud": _with_cards(context, "rtx2080ti", 2)})
    assert not is_done(SiteContext(with_another, context.site_file, context.paths))


def test_a_hypervisor_in_use_is_not_rebooted(
    context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gpu01 runs an instance, gpu02 is drained; the message of the first stops the run before the second."""
    build(tmp_path, "ryzen", {"10de:1e07": "nouveau", "*": "xhci_hcd"}, iommu=False)
    Record(done={"deploy": "x"}).save(context.paths)
    servers = {"gpu01": ["cic-gpu01"], "gpu02": []}
    compute = SimpleNamespace(
        services=lambda **_: [SimpleNamespace(host=name, status="disabled") for name in servers],
        servers=lambda *, host, **_: servers[host],
    )

    class Cloud:
        def __enter__(self) -> SimpleNamespace:
            return SimpleNamespace(compute=compute)

        def __exit__(self, *_: object) -> None:
            """Nothing to close."""

    monkeypatch.setattr(passthrough, "connect", lambda *_: Cloud())
    with pytest.raises(UserError) as raised:
        run(context, tmp_path)
    assert raised.value.message.startswith("PCI passthrough: gpu01: ")
    assert "gpu01 needs a reboot" in raised.value.message
    assert "Then run `strata up tacc` again" in raised.value.message
    assert "gpu02" not in raised.value.message
    assert {name: host["pci_passthrough_reboot"] for name, host in inventory_of(context).items()} == {
        "gpu01": False,
        "gpu02": True,
    }
    assert not is_done(context)


def test_a_shared_iommu_group_is_refused_before_anything_is_written(context: SiteContext, tmp_path: Path) -> None:
    """The published machine has two V100 in group 19."""
    build(tmp_path, "six_v100", {"*": "vfio-pci"})
    six = context.site.model_copy(update={"cloud": _with_cards(context, "v100", 6)})
    with pytest.raises(UserError, match=r"gpu01: .*shares IOMMU group 19"):
        run(SiteContext(six, context.site_file, context.paths), tmp_path)
    assert not (tmp_path / "etc").exists()


def _with_cards(context: SiteContext, kind: str, number: int) -> Any:
    cloud = context.site.cloud
    assert cloud is not None
    hosts = [h.model_copy(update={"accelerators": {kind: number}}) if h.accelerators else h for h in cloud.hypervisors]
    return cloud.model_copy(update={"hypervisors": tuple(hosts)})
