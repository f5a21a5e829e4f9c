"""Hypervisors that hand out their accelerators: machines with the role pci_passthrough, and what the role gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.models.compute import Hypervisor
from strata.models.hosts import Machine
from strata.models.pci_passthrough import PciPassthrough
from strata.models.site import Site


def passthrough(site: Site) -> dict[str, Mapping[str, int]]:
    """Accelerators by kind of each machine with the role pci_passthrough, by the machine's name.

    They are those of the machine, or of the cloud's hypervisor that has the machine's name.
    """
    return {
        machine.name: machine.accelerators or (hypervisor.accelerators if hypervisor else {})
        for machine, hypervisor in _machines(site)
    }


def passthrough_devices(site: Site) -> dict[str, PciPassthrough | None]:
    """The section pci_passthrough of the same machines, from their own entry or the hypervisor's."""
    return {
        machine.name: machine.pci_passthrough or (hypervisor.pci_passthrough if hypervisor else None)
        for machine, hypervisor in _machines(site)
    }


def passthrough_variables(
    site: Site, accelerators: Mapping[str, int], devices: PciPassthrough | None
) -> dict[str, object]:
    """Variables of the role pci_passthrough for one host.

    Args:
        site: has the kinds.
        accelerators: number of the host's cards that instances get, by kind.
        devices: chosen or unused ones of the host; None if its kinds determine them.
    """
    devices = devices or PciPassthrough()
    return {
        "pci_passthrough_cards": [
            {"kind": kind, "id": site.accelerators[kind].pci_id, "count": count}
            for kind, count in sorted(accelerators.items())
        ],
        "pci_passthrough_addresses": list(devices.addresses),
        "pci_passthrough_unused": list(devices.unused),
    }


def _machines(site: Site) -> Iterator[tuple[Machine, Hypervisor | None]]:
    """Those with the role, each with the cloud's hypervisor of its name."""
    hypervisors = {hypervisor.name: hypervisor for hypervisor in (site.cloud.hypervisors if site.cloud else ())}
    for machine in site.hosts.machines:
        if "pci_passthrough" in machine.roles:
            yield machine, hypervisors.get(machine.name)
