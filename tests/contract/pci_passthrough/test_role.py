"""The role under the real Ansible, on machines whose sysfs is a published one; what it writes and what it refuses."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from strata_bench.local_playbook import run_locally

from .sysfs import build

CARD = {"kind": "rtx2080ti", "id": "10de:1e07", "count": 1}
IDS = "10de:10f7,10de:1ad6,10de:1ad7,10de:1e07"
TOOLS = ("update-grub", "update-initramfs")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory with programs that record their calls, and an empty /etc."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >>{tmp_path}/calls\n')
        (programs / tool).chmod(0o755)
    (tmp_path / "calls").write_text("")
    return tmp_path


def converge(machine: Path, **variables: Any) -> tuple[str, dict[str, int]]:
    """Output of the role and the numbers of its recap."""
    paths = {
        "pci_passthrough_etc": str(machine / "etc"),
        "pci_passthrough_sysfs": str(machine / "sys"),
        "pci_passthrough_cpuinfo": str(machine / "cpuinfo"),
        "pci_passthrough_cards": [CARD],
    }
    done = run_locally(
        machine / "playbook.yml",
        "gpu01",
        {"hosts": "all", "gather_facts": False, "roles": ["pci_passthrough"]},
        {**paths, **variables},
        {"PATH": f"{machine / 'bin'}:{os.environ['PATH']}"},
    )
    recap = re.search(r"gpu01\s+: (ok=.*)", done.stdout)
    assert recap is not None, done.stdout + done.stderr
    return " ".join(done.stdout.split()), {k: int(n) for k, n in re.findall(r"(\w+)=(\d+)", recap[1])}


def test_a_host_in_use_is_configured_and_not_rebooted(machine: Path) -> None:
    """First run: everything is written, once; the reboot waits for the operator. Second, after it: nothing changes."""
    build(machine, "ryzen", {"10de:1e07": "nouveau", "*": "xhci_hcd"}, iommu=False)
    output, numbers = converge(machine)
    assert numbers["failed"] == 1
    assert "gpu01 needs a reboot (the IOMMU is off; 0000:0a:00.0 (10de:1e07, driver nouveau) is not bound" in output
    assert "Drain it" in output
    calls = (machine / "calls").read_text().splitlines()
    assert sorted(calls) == ["update-grub ", "update-initramfs -u -k all"]
    etc = machine / "etc"
    grub = (etc / "default/grub.d/strata-pci-passthrough.cfg").read_text()
    # AMD's IOMMU needs no switch
    assert 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"' in grub
    modprobe = (etc / "modprobe.d/strata-pci-passthrough.conf").read_text().splitlines()
    assert f"options vfio-pci ids={IDS}" in modprobe
    assert {"blacklist nouveau", "blacklist nvidia", "softdep nouveau pre: vfio-pci"} <= set(modprobe)
    # what the host itself needs is not taken from it
    assert not {"blacklist xhci_pci", "blacklist snd_hda_intel"} & set(modprobe)
    assert (etc / "modules-load.d/strata-pci-passthrough.conf").read_text() == "vfio-pci\n"
    for script in ("scripts/init-top", "hooks"):
        file = etc / "initramfs-tools" / script / "strata-pci-passthrough"
        assert os.access(file, os.X_OK)
        subprocess.run(["sh", "-n", str(file)], check=True)
        assert subprocess.run([str(file), "prereqs"], capture_output=True, check=True).stdout == b""

    build(machine, "ryzen", {"*": "vfio-pci"})
    output, numbers = converge(machine)
    assert (numbers["changed"], numbers["failed"]) == (0, 0), output
    assert (machine / "calls").read_text().splitlines() == calls


@pytest.mark.nightly
def test_cards_by_address_on_intel(machine: Path) -> None:
    build(machine, "two_cards_one_group", {"*": "vfio-pci"})
    own, other = ["0000:01:00.0"], ["0000:02:00.0", "0000:02:00.1"]
    output, numbers = converge(machine, pci_passthrough_addresses=own, pci_passthrough_unused=other)
    assert numbers["failed"] == 0, output
    etc = machine / "etc"
    assert "intel_iommu=on iommu=pt" in (etc / "default/grub.d/strata-pci-passthrough.cfg").read_text()
    assert "ids=" not in (etc / "modprobe.d/strata-pci-passthrough.conf").read_text()
    script = (etc / "initramfs-tools/scripts/init-top/strata-pci-passthrough").read_text()
    functions = [f"0000:01:00.{n}" for n in range(4)]
    assert f"for address in {' '.join(functions + other)}; do" in script


def test_a_shared_group_is_refused_before_anything_is_written(machine: Path) -> None:
    build(machine, "two_cards_one_group", {"1002:67df": "amdgpu"})
    output, numbers = converge(machine)
    assert numbers["failed"] == 1
    assert "gpu01: 0000:01:00.0 (10de:1e07) shares IOMMU group 1 with 0000:02:00.0 (1002:67df, driver amdgpu)" in output
    assert not (machine / "etc").exists()
