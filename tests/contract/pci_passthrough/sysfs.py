"""sysfs of real machines, made from the IOMMU groups that their owners published (machines.yaml)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

MACHINES: dict[str, dict[str, str]] = yaml.safe_load((Path(__file__).parent / "machines.yaml").read_text())
LINE = re.compile(r"IOMMU Group (\d+) (\S+) .*? \[([0-9a-f]{4})\]: .* \[([0-9a-f]{4}):([0-9a-f]{4})\]")


def build(root: Path, machine: str, drivers: dict[str, str], *, iommu: bool = True) -> Path:
    """Writes the part of sysfs and procfs that the role reads.

    Args:
        root: where to.
        machine: its key in machines.yaml.
        drivers: `vendor:device` to the driver that is bound to it; `*` for all others, none where it is not there.
        iommu: whether the IOMMU is on.
    """
    devices = root / "sys/bus/pci/devices"
    for line in MACHINES[machine]["groups"].splitlines():
        match = LINE.match(line)
        assert match is not None, line
        group, short, kind, vendor, device = match.groups()
        folder = devices / f"0000:{short}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("vendor", vendor), ("device", device), ("class", f"{kind}00")):
            (folder / name).write_text(f"0x{content}\n")
        links = {"driver": drivers.get(f"{vendor}:{device}", drivers.get("*")), "iommu_group": group if iommu else None}
        for link, target in links.items():
            (folder / link).unlink(missing_ok=True)
            if target is not None:
                (folder / link).symlink_to(f"../../../../{link}s/{target}")
    (root / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {MACHINES[machine]['cpu']}\n")
    return root
