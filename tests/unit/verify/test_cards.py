"""Which cards a host has and a pod sees, from real files and a program in the place of nvidia-smi."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import testinfra
from tests.unit.verify.site_doubles import V100, devices

from strata.models.accelerator_catalogue import CATALOGUE
from strata.provider import provider_of
from strata.provider.base import SYSFS_CARDS
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.verify.cards import PodCards, host_devices, known_cards, pod_command


def test_the_first_directory_that_exists_counts_and_other_devices_do_not(tmp_path: Path) -> None:
    host = testinfra.get_host("local://")
    sysfs = devices(tmp_path / "sysfs", V100, ("0000:01:00.0", "0x8086", "0x1572", "0x020000"))
    lab = tmp_path / "lab"
    present = host_devices(host, (str(lab), str(sysfs)))
    assert known_cards(present, CATALOGUE.values()) == {"0000:3b:00.0": "10de:1db4"}
    lab.mkdir()  # an instance that was given no card
    assert host_devices(host, (str(lab), str(sysfs))) == {}


@pytest.mark.parametrize("site", ["lab", "tacc", "nautilus"])
def test_a_lab_never_counts_the_hardware_of_its_machine(site: str) -> None:
    directories = provider_of(load_site(find_site(site))).pci_directories
    assert ("/sys/bus/pci/devices" in directories) == (site != "lab")


def seen(directory: Path, programs: Path, given: str) -> PodCards:
    """What the program prints in a pod."""
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "NVIDIA_VISIBLE_DEVICES": given}
    command = [sys.executable, *pod_command([str(directory), SYSFS_CARDS])[1:]]
    return PodCards(**json.loads(subprocess.check_output(command, env=environment, text=True)))


def test_a_pod_reads_the_labs_files_and_asks_the_driver(tmp_path: Path) -> None:
    lab, programs = tmp_path / "lab", tmp_path / "bin"
    programs.mkdir()
    nothing = seen(lab, programs, "void")
    assert nothing.none
    assert "nvidia-smi" in nothing.problem
    (programs / "nvidia-smi").write_text("#!/bin/sh\necho 00000000:AF:00.0\necho 00000000:3B:00.0\n")
    (programs / "nvidia-smi").chmod(0o755)
    facts = seen(lab, programs, "GPU-1,GPU-2")
    assert (facts.driver, facts.problem, facts.none) == (["0000:3b:00.0", "0000:af:00.0"], "", False)
    devices(lab, V100)
    facts = seen(lab, programs, V100[0])
    assert (facts.variables, facts.directories) == ({"NVIDIA_VISIBLE_DEVICES": V100[0]}, [V100[0]])
