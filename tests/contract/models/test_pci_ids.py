"""The catalogue of accelerators against the PCI ID Repository, as Debian packages it (pci.ids)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.models.accelerator_catalogue import CATALOGUE, Accelerator

LISTED = Path(__file__).parent / "pci.ids"
"""The catalogue's devices, from Debian's package."""
INSTALLED = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))
VENDORS = {"10de": "NVIDIA", "10ee": "Xilinx"}


def devices(file: Path) -> dict[str, str]:
    """`vendor:device` to name."""
    names, vendor = {}, ""
    for line in file.read_text(errors="replace").splitlines():
        if match := re.match(r"([0-9a-f]{4})  (.*)", line):
            vendor = match[1]
        elif line and not line.startswith(("\t", "#")):
            vendor = ""  # classes
        elif vendor and (match := re.match(r"\t([0-9a-f]{4})  (.*)", line)):
            names[f"{vendor}:{match[1]}"] = match[2]
    return names


def words(name: str) -> set[str]:
    """What a name states of the card: `GV100GL [Tesla V100 PCIe 16GB]` → tesla, v100, pcie, 16gb."""
    inside = name[name.find("[") + 1 :].rstrip("]")
    return set(re.sub(r"(\d+) GB", r"\1GB", inside).lower().replace("-", " ").split())


@pytest.mark.parametrize("card", CATALOGUE.values(), ids=lambda card: card.kind)
def test_a_card_is_what_the_repository_calls_it(card: Accelerator) -> None:
    name = devices(LISTED)[f"{card.vendor_id}:{card.product_id}"]
    listed, said = words(name) - {"platform", "xdma", "xmda"}, words(card.description)
    assert listed <= said, f"{card.kind}: {name}"
    memory = re.search(r"(\d+)GB", name)
    assert memory is None or card.memory.bytes == int(memory[1]) * 2**30


def test_the_list_is_debians() -> None:
    installed = next((file for file in INSTALLED if file.exists()), None)
    if installed is None:
        pytest.skip("Debian's package pci.ids is not installed")
    listed, packaged = devices(LISTED), devices(installed)
    assert set(listed) == {f"{card.vendor_id}:{card.product_id}" for card in CATALOGUE.values()}
    # an older release of Debian has fewer devices; it wrote two of their names in another way
    known = {device: name for device, name in packaged.items() if device in listed}
    assert len(known) > len(listed) / 2
    assert {d: words(n.replace("GH100[", "GH100 [")) for d, n in known.items()} == {d: words(listed[d]) for d in known}
