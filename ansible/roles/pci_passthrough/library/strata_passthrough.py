#!/usr/bin/python
"""Ansible module: what PCI devices and IOMMU groups allow to hand to instances; reads sysfs, changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: strata_passthrough
short_description: Reads which PCI devices can be handed to instances
options:
  cards:
    description: Kinds of cards with C(kind), C(id) (vendor:device) and C(count).
    type: list
    elements: dict
    required: true
  addresses:
    description: The cards that are chosen among these; empty means all.
    type: list
    elements: str
    default: []
  unused:
    description: Devices that may share a group with a card.
    type: list
    elements: str
    default: []
  sysfs:
    description: Where the kernel describes its devices.
    type: path
    default: /sys
  cpuinfo:
    description: Where the kernel describes its processors.
    type: path
    default: /proc/cpuinfo
attributes:
  check_mode: {support: full}
"""

RETURN = """
cpu:
  description: C(intel) or C(amd), else empty.
  type: str
  returned: always
ids:
  description: Identifiers that vfio-pci takes; none where cards are chosen by address.
  type: list
  elements: str
  returned: always
addresses:
  description: Addresses that vfio-pci takes; none where cards are chosen by identifier.
  type: list
  elements: str
  returned: always
pending:
  description: What a reboot has to change.
  type: list
  elements: str
  returned: always
problems:
  description: What no reboot changes.
  type: list
  elements: str
  returned: always
"""

DRIVER = "vfio-pci"
BRIDGE = "06"
"""Base class of bridges, which stay with the host: vfio ignores them in a group."""
CPUS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}


@dataclass(frozen=True)
class Device:
    """One function of a PCI device.

    Args:
        address: `0000:3b:00.0`.
        id: `vendor:device`.
        base_class: two hexadecimal digits.
        driver: bound to it; None where none is.
        group: IOMMU group; None where the IOMMU is off.
    """

    address: str
    id: str
    base_class: str
    driver: str | None
    group: str | None

    @property
    def card(self) -> str:
        """Domain, bus and slot, which all functions of a card share."""
        return self.address.rpartition(".")[0]

    def __str__(self) -> str:
        """For messages."""
        return f"{self.address} ({self.id}{f', driver {self.driver}' if self.driver else ''})"


def read(sysfs: Path) -> dict[str, Device]:
    """Every PCI function below sysfs, by address."""
    devices = {}
    for path in sorted((sysfs / "bus/pci/devices").glob("*")):
        vendor, device, kind = ((path / name).read_text().strip()[2:] for name in ("vendor", "device", "class"))
        driver, group = (_target(path / name) for name in ("driver", "iommu_group"))
        devices[path.name] = Device(path.name, f"{vendor}:{device}".lower(), kind[:2].lower(), driver, group)
    return devices


def _target(link: Path) -> str | None:
    return link.readlink().name if link.is_symlink() else None


def examine(
    devices: Mapping[str, Device], cards: Sequence[Mapping[str, Any]], chosen: Sequence[str], unused: Sequence[str]
) -> dict[str, list[str]]:
    """What is bound to vfio-pci, what a reboot has to change, and what is wrong.

    Args:
        devices: of the host.
        cards: kinds, each with kind, id and count.
        chosen: addresses of the cards among these; empty: all.
        unused: addresses that may share a group with a card.
    """
    problems: list[str] = []
    taken: list[Device] = []
    ids = {card["id"] for card in cards}
    for address in (address for address in (*chosen, *unused) if address not in devices):
        near = ", ".join(device.address for device in devices.values() if device.id in ids)
        problems.append(f"there is no PCI device {address}; cards are at {near or 'no address'}")
    for card in cards:
        having = [device for device in devices.values() if device.id == card["id"] and device.address not in unused]
        picked = [device for device in having if not chosen or device.address in chosen]
        if len(picked) != card["count"]:
            where = ", ".join(device.address for device in picked) or "see lspci -nn"
            kind = f"{card['kind']} ({card['id']})"
            problems.append(f"the site file has {card['count']} × {kind}, the host has {len(picked)}: {where}")
        taken += picked
    problems += _shared(devices.values(), taken, unused)
    slots = {card.card for card in taken}
    bound = [device for device in devices.values() if device.card in slots or device.address in unused]
    pending = [f"{device} is not bound to {DRIVER}" for device in bound if device.driver != DRIVER]
    if taken and all(device.group is None for device in taken):
        pending.insert(0, "the IOMMU is off")
    return {
        "ids": [] if chosen else sorted({device.id for device in bound}),
        "addresses": sorted(device.address for device in bound) if chosen else [],
        "pending": pending,
        "problems": problems,
    }


def _shared(devices: Iterable[Device], taken: Sequence[Device], unused: Sequence[str]) -> list[str]:
    """Cards whose IOMMU group holds a device that does not go with them."""
    problems = []
    for card in taken:
        group = [device for device in devices if card.group is not None and device.group == card.group]
        others = [d for d in group if d.card != card.card and d.base_class != BRIDGE and d.address not in unused]
        if others:
            names = ", ".join(map(str, others))
            problems.append(
                f"{card} shares IOMMU group {card.group} with {names}, so one instance would get them all: switch on "
                "ACS in the firmware, use another slot, or name what stays unused (pci_passthrough.unused in site.yaml)"
            )
    return problems


def cpu_vendor(cpuinfo: str) -> str:
    """`intel` or `amd`; empty for others."""
    match = re.search(r"^vendor_id\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    return CPUS.get(match[1], "") if match else ""


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "cards": {"type": "list", "elements": "dict", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "unused": {"type": "list", "elements": "str", "default": []},
            "sysfs": {"type": "path", "default": "/sys"},
            "cpuinfo": {"type": "path", "default": "/proc/cpuinfo"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    devices = read(Path(asked["sysfs"]))
    result = examine(devices, asked["cards"], asked["addresses"], asked["unused"])
    cpu = cpu_vendor(Path(asked["cpuinfo"]).read_text())
    if not cpu:
        result["problems"].insert(0, "its processor is neither Intel's nor AMD's")
    module.exit_json(changed=False, cpu=cpu, **result)


if __name__ == "__main__":
    main()
