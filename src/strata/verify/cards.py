"""The accelerators that a host has and a pod sees, on real hardware as in a lab."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strata.models.accelerator_catalogue import Accelerator

if TYPE_CHECKING:
    from testinfra.host import Host

CARD_CLASSES = ("0x03", "0x12")
"""Beginnings of sysfs' `class`: display controllers, GPUs without outputs among them, and processing accelerators."""
_POD = """
import glob, json, os, re, subprocess, sys
query = ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"]
try:
    listed = subprocess.run(query, capture_output=True, text=True)
    lines, problem = listed.stdout.splitlines() if listed.returncode == 0 else [], ""
    problem = "" if listed.returncode == 0 else (listed.stdout + listed.stderr).strip()
except OSError as error:
    lines, problem = [], str(error)
# eight digits of the domain, where sysfs has four
driver = [re.sub("^0000(?=[0-9a-f]{4}:)", "", line.strip().lower()) for line in lines if line.strip()]
given = {name: value for name, value in os.environ.items() if name.endswith("_VISIBLE_DEVICES")}
print(json.dumps({
    "variables": {name: value for name, value in given.items() if value not in ("", "void", "none")},
    "directories": sorted(name for root in sys.argv[1:] if os.path.isdir(root) for name in os.listdir(root)),
    "files": sorted(glob.glob("/dev/nvidia[0-9]*")),
    "driver": sorted(driver),
    "problem": problem,
}))
"""


@dataclass(frozen=True)
class PodCards:
    """What a container sees of cards.

    Args:
        variables: of the environment that name devices, by name.
        directories: PCI addresses below the directories of cards without hardware.
        files: device files of NVIDIA's GPUs.
        driver: PCI addresses that nvidia-smi lists.
        problem: why nvidia-smi lists none.
    """

    variables: Mapping[str, str]
    directories: Sequence[str]
    files: Sequence[str]
    driver: Sequence[str]
    problem: str

    @property
    def none(self) -> bool:
        """Whether the container sees no card in any way."""
        return not (self.variables or self.directories or self.files or self.driver)


def pod_command(directories: Iterable[str]) -> list[str]:
    """The command of a container that prints the fields of PodCards as JSON.

    Args:
        directories: the provider's; a container has its own view of those below /sys, with every device of the node.
    """
    return ["python3", "-c", _POD, *(root for root in directories if not root.startswith("/sys/"))]


@dataclass(frozen=True)
class Device:
    """A PCI device of a host.

    Args:
        pci_id: vendor and product, 10de:1db4.
        code: its class as in sysfs, 0x030200.
    """

    pci_id: str
    code: str


def host_devices(host: Host, directories: Sequence[str]) -> dict[str, Device]:
    """PCI address to device of a host.

    Args:
        host: over SSH.
        directories: in the form of /sys/bus/pci/devices; the first that exists counts.

    Raises:
        AssertionError: none of them exists.
    """
    listing = host.check_output(
        f"for root in {shlex.join(directories)}; do [ -d $root ] && break; done; cd $root || exit 1; "
        "for d in *; do if [ -r $d/device ]; then echo $d $(cat $d/vendor) $(cat $d/device) $(cat $d/class); fi; done"
    )
    rows = [line.split() for line in listing.splitlines()]
    return {row[0]: Device(f"{row[1][2:]}:{row[2][2:]}", row[3] if len(row) > 3 else "") for row in rows}


def known_cards(devices: Mapping[str, Device], kinds: Iterable[Accelerator]) -> dict[str, str]:
    """PCI address to vendor:product of the devices that are accelerators of these kinds."""
    known = {card.pci_id for card in kinds}
    return {address: device.pci_id for address, device in devices.items() if device.pci_id in known}


def any_cards(devices: Mapping[str, Device], kinds: Iterable[Accelerator]) -> dict[str, str]:
    """As known_cards, with the other cards of the same vendors: the cloud may have kinds that the site does not list.
    The display of a virtual machine is of another vendor."""
    kinds = list(kinds)
    vendors = {card.vendor_id for card in kinds}
    return known_cards(devices, kinds) | {
        address: device.pci_id
        for address, device in devices.items()
        if device.pci_id.partition(":")[0] in vendors and device.code.startswith(CARD_CLASSES)
    }
