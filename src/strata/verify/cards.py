"""The accelerators that a host has and a pod sees, on real hardware as in a lab."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from strata.models.accelerators import Accelerator
from strata.provider.base import SIMULATED_CARDS

if TYPE_CHECKING:
    from testinfra.host import Host

_POD = """
import json, os, re, subprocess, sys
def addresses():
    if os.path.isdir(sys.argv[1]):
        return os.listdir(sys.argv[1])
    query = ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    # eight digits of the domain, where sysfs has four
    return [re.sub("^0000(?=[0-9a-f]{4}:)", "", line.strip().lower()) for line in listed.splitlines() if line.strip()]
given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
print(json.dumps({"variable": "" if given in ("void", "none") else given, "addresses": sorted(addresses())}))
"""
POD_COMMAND = ["python3", "-c", _POD, SIMULATED_CARDS]
"""Prints the variable with the devices of a container, and the PCI addresses of the GPUs that it sees."""


def host_cards(host: Host, directories: Sequence[str], kinds: Iterable[Accelerator]) -> dict[str, str]:
    """PCI address to vendor:product of a host's accelerators.

    Args:
        host: over SSH.
        directories: in the form of /sys/bus/pci/devices; the first that exists counts.
        kinds: those of the site; other PCI devices do not count.
    """
    listing = host.check_output(
        f"for root in {shlex.join(directories)}; do [ -d $root ] && break; done; cd $root && "
        "for d in *; do [ -r $d/device ] && echo $d $(cat $d/vendor) $(cat $d/device); done; true"
    )
    known = {card.pci_id for card in kinds}
    rows = [line.split() for line in listing.splitlines()]
    found = {address: f"{vendor[2:]}:{product[2:]}" for address, vendor, product in rows}
    return {address: card for address, card in found.items() if card in known}
