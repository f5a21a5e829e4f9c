"""Which cards a host has and a pod sees, from real files and a program in the place of nvidia-smi."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import testinfra

from strata.models import find_site, load_site
from strata.models.accelerators import CATALOGUE
from strata.provider import provider_of
from strata.verify.cards import POD_COMMAND, host_cards

V100 = ("0000:3b:00.0", "0x10de", "0x1db4")


def devices(root: Path, *cards: tuple[str, str, str]) -> Path:
    """A directory in the form of /sys/bus/pci/devices."""
    for address, vendor, product in cards:
        (root / address).mkdir(parents=True)
        (root / address / "vendor").write_text(f"{vendor}\n")
        (root / address / "device").write_text(f"{product}\n")
    return root


def test_the_first_directory_that_exists_counts_and_other_devices_do_not(tmp_path: Path) -> None:
    host = testinfra.get_host("local://")
    network_card = ("0000:01:00.0", "0x8086", "0x1572")
    sysfs = devices(tmp_path / "sysfs", V100, network_card)
    lab = tmp_path / "lab"
    assert host_cards(host, (str(lab), str(sysfs)), CATALOGUE.values()) == {"0000:3b:00.0": "10de:1db4"}
    lab.mkdir()  # an instance that was given no card
    assert host_cards(host, (str(lab), str(sysfs)), CATALOGUE.values()) == {}


@pytest.mark.parametrize("site", ["lab", "tacc", "nautilus"])
def test_a_lab_never_counts_the_hardware_of_its_machine(site: str) -> None:
    directories = provider_of(load_site(find_site(site))).pci_directories
    assert ("/sys/bus/pci/devices" in directories) == (site != "lab")


def seen(directory: Path, programs: Path, given: str) -> dict[str, object]:
    """What the program prints in a pod."""
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "NVIDIA_VISIBLE_DEVICES": given}
    command = [sys.executable, *POD_COMMAND[1:-1], str(directory)]
    found: dict[str, object] = json.loads(subprocess.check_output(command, env=environment, text=True))
    return found


def test_a_pod_reads_the_labs_files_or_asks_the_driver(tmp_path: Path) -> None:
    lab, programs = tmp_path / "lab", tmp_path / "bin"
    programs.mkdir()
    assert seen(lab, programs, "void") == {"variable": "", "addresses": []}
    (programs / "nvidia-smi").write_text("#!/bin/sh\necho 00000000:AF:00.0\necho 00000000:3B:00.0\n")
    (programs / "nvidia-smi").chmod(0o755)
    assert seen(lab, programs, "GPU-1,GPU-2")["addresses"] == ["0000:3b:00.0", "0000:af:00.0"]
    devices(lab, V100)
    assert seen(lab, programs, V100[0]) == {"variable": V100[0], "addresses": [V100[0]]}
