"""What the role reads of IOMMU groups, on trees made from those of real machines."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strata.models.accelerator_catalogue import CATALOGUE
from strata.roles import DIRECTORY
from strata_bench.module_file import load_module

from .sysfs import MACHINES, build

V100, RTX = "10de:1db4", "10de:1e07"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """The role's module."""
    return load_module(DIRECTORY / "pci_passthrough" / "library" / "strata_passthrough.py")


def cards(**counts: int) -> list[dict[str, Any]]:
    """Cards as the inventory names them."""
    return [{"kind": k, "id": CATALOGUE[k].pci_id, "count": n} for k, n in counts.items()]


def examined(module: ModuleType, root: Path, asked: list[dict[str, Any]], *lists: list[str]) -> dict[str, list[str]]:
    chosen, unused = (*lists, [], [])[:2]
    result: dict[str, list[str]] = module.examine(module.read(root / "sys"), asked, chosen, unused)
    return result


def test_every_machine_names_its_source() -> None:
    assert all(machine["source"].startswith("https://") for machine in MACHINES.values())


def test_cards_that_share_a_group_are_refused_by_name(module: ModuleType, tmp_path: Path) -> None:
    result = examined(module, build(tmp_path, "six_v100", {"*": "vfio-pci"}), cards(v100=6))
    assert len(result["problems"]) == 4
    first = result["problems"][0]
    assert "0000:27:00.0 (10de:1db4, driver vfio-pci) shares IOMMU group 19 with 0000:28:00.0" in first
    assert "pci_passthrough.unused in site.yaml" in first
    assert result["pending"] == []


def test_one_card_of_each_group_is_handed_out_as_its_owners_do(module: ModuleType, tmp_path: Path) -> None:
    root = build(tmp_path, "six_v100", {"*": "vfio-pci"})
    unused = ["0000:28:00.0", "0000:c4:00.0"]
    result = examined(module, root, cards(v100=4), [], unused)
    assert (result["problems"], result["pending"], result["ids"], result["addresses"]) == ([], [], [V100], [])
    chosen = ["0000:a3:00.0", "0000:c3:00.0", "0000:27:00.0", "0000:44:00.0"]
    result = examined(module, root, cards(v100=4), chosen, unused)
    assert (result["problems"], result["ids"], result["addresses"]) == ([], [], sorted(chosen + unused))


def test_another_card_in_the_group_is_refused_and_bridges_are_not(module: ModuleType, tmp_path: Path) -> None:
    root = build(tmp_path, "two_cards_one_group", {"*": "pcieport", "1002:67df": "amdgpu"})
    (problem,) = examined(module, root, cards(rtx2080ti=1))["problems"]
    assert "shares IOMMU group 1 with 0000:02:00.0 (1002:67df, driver amdgpu), 0000:02:00.1" in problem
    assert "00:01.0" not in problem
    assert "01:00.1" not in problem


def test_a_card_goes_with_all_its_functions(module: ModuleType, tmp_path: Path) -> None:
    drivers = {"*": "vfio-pci", RTX: "nouveau", "10de:1ad6": "xhci_hcd"}
    result = examined(module, build(tmp_path, "ryzen", drivers), cards(rtx2080ti=1))
    assert result["problems"] == []
    assert result["ids"] == ["10de:10f7", "10de:1ad6", "10de:1ad7", RTX]
    assert result["pending"] == [
        "0000:0a:00.0 (10de:1e07, driver nouveau) is not bound to vfio-pci",
        "0000:0a:00.2 (10de:1ad6, driver xhci_hcd) is not bound to vfio-pci",
    ]


def test_a_switch_that_separates_its_ports_is_fine(module: ModuleType, tmp_path: Path) -> None:
    result = examined(module, build(tmp_path, "behind_a_switch", {"*": "vfio-pci"}), cards(**{"rtx2080ti-1e04": 2}))
    assert (result["problems"], result["pending"]) == ([], [])


def test_without_iommu_a_reboot_is_pending(module: ModuleType, tmp_path: Path) -> None:
    result = examined(module, build(tmp_path, "ryzen", {}, iommu=False), cards(rtx2080ti=1))
    assert result["problems"] == []
    assert result["pending"][0] == "the IOMMU is off"


def test_other_cards_than_the_site_file_has_are_named(module: ModuleType, tmp_path: Path) -> None:
    root = build(tmp_path, "ryzen", {"*": "vfio-pci"})
    result = examined(module, root, cards(rtx2080ti=2, v100=1), ["0000:0a:00.0", "0000:0b:00.0"])
    assert result["problems"] == [
        "there is no PCI device 0000:0b:00.0; cards are at 0000:0a:00.0",
        "the site file has 2 × rtx2080ti (10de:1e07), the host has 1: 0000:0a:00.0",
        "the site file has 1 × v100 (10de:1db4), the host has 0: see lspci -nn",
    ]


@pytest.mark.parametrize(("cpuinfo", "vendor"), [("vendor_id\t: GenuineIntel\n", "intel"), ("CPU part\t: 0xd0c\n", "")])
def test_processors(module: ModuleType, cpuinfo: str, vendor: str) -> None:
    assert module.cpu_vendor(cpuinfo) == vendor
