"""PCI devices of hypervisors: chosen and unused ones against each other and the declared cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.models.finding import Finding, duplicates
from strata.models.hypervisors import passthrough
from strata.models.key_path import MACHINES, KeyPath
from strata.models.pci_passthrough import PciPassthrough
from strata.models.site import Site

HYPERVISORS: KeyPath = ("cloud", "hypervisors")


def check(site: Site) -> Iterator[Finding]:
    """Every section pci_passthrough reaches the role, and its addresses are as many as the cards, once each."""
    handed_out = passthrough(site)
    for index, machine in enumerate(site.hosts.machines):
        path: KeyPath = (*MACHINES, index, "pci_passthrough")
        if machine.pci_passthrough is None:
            continue
        if "pci_passthrough" not in machine.roles:
            why = "is for hosts with the role pci_passthrough"
            yield Finding(path, why, "add the role, or remove the section", ((*MACHINES, index, "roles"),))
        else:
            yield from _devices(path, machine.pci_passthrough, handed_out[machine.name])
    by_kolla = site.cloud is not None and site.cloud.kolla is not None
    for index, hypervisor in enumerate(site.cloud.hypervisors if site.cloud else ()):
        path = (*HYPERVISORS, index, "pci_passthrough")
        devices = hypervisor.pci_passthrough
        if devices is None:
            continue
        if not by_kolla and hypervisor.name not in handed_out:
            why = "is for deployment: kolla; elsewhere the role pci_passthrough runs on hosts.machines only"
            fix = f"list {hypervisor.name} in hosts.machines with the role, or remove the section"
            yield Finding(path, why, fix, (MACHINES,))
            continue
        if by_kolla and devices.unused and not devices.addresses:
            why = "names devices and addresses none: nova would give an unused card of the same kind to instances"
            fix = "addresses of all cards that instances get"
            yield Finding((*path, "unused"), why, fix, ((*path, "addresses"),))
        yield from _devices(path, devices, hypervisor.accelerators)


def _devices(path: KeyPath, devices: PciPassthrough, accelerators: Mapping[str, int]) -> Iterator[Finding]:
    chosen = {address: (*path, "addresses", index) for index, address in enumerate(devices.addresses)}
    for key in ("addresses", "unused"):
        yield from duplicates([(a, (*path, key, index)) for index, a in enumerate(getattr(devices, key))])
    for index, address in enumerate(devices.unused):
        if address in chosen:
            why = f"{address} is in addresses too: instances get a device, or nothing uses it"
            yield Finding((*path, "unused", index), why, "remove it from one of the two lists", other=chosen[address])
    count, total = len(devices.addresses), sum(accelerators.values())
    reads = ((*path[:-1], "accelerators"),)
    if not total:
        yield Finding(path, "is for hosts with accelerators, and this one has none", "add accelerators", reads)
    elif count not in (0, total):
        why = f"has {count} addresses, and accelerators of this host declares {total} cards for instances"
        yield Finding((*path, "addresses"), why, f"{total} addresses, or another number in accelerators", reads)
