"""Machines with the role pci_passthrough: hypervisors that hand out their accelerators."""

from __future__ import annotations

from collections.abc import Mapping

from strata.models.site import Site


def passthrough(site: Site) -> dict[str, Mapping[str, int]]:
    """Accelerators by kind of each machine with the role pci_passthrough, by the machine's name.

    They are those of the machine, or of the cloud's hypervisor that has the machine's name.
    """
    hypervisors = {
        hypervisor.name: hypervisor.accelerators for hypervisor in (site.cloud.hypervisors if site.cloud else ())
    }
    return {
        machine.name: machine.accelerators or hypervisors.get(machine.name, {})
        for machine in site.hosts.machines
        if "pci_passthrough" in machine.roles
    }
