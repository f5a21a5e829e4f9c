"""Accelerators: what is asked for, and what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.cloud import Cloud
from strata.models.finding import Finding, duplicates
from strata.models.gpu_nodes import gpu_nodes, offered
from strata.models.hypervisors import passthrough
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site

HYPERVISORS: KeyPath = ("cloud", "hypervisors")
KINDS: KeyPath = ("accelerator_kinds",)
FLAVORS: KeyPath = ("cloud", "flavors")


def check(site: Site) -> Iterator[Finding]:
    """Flavors, instances, GPU nodes and tenants against the cards of hypervisors and machines."""
    yield from _described(site)
    if site.cloud is not None:
        if site.cloud.hypervisors:  # else others administer the cloud
            yield from _flavors(site.cloud)
            yield from _instances(site.cloud)
        yield from _gpu_instances(site.cloud)
    yield from _machines(site)
    yield from _support(site)
    yield from _tenants(site)


def _described(site: Site) -> Iterator[Finding]:
    """Kinds that the site describes, against each other and the built-in ones."""
    built_in = {card.pci_id: kind for kind, card in CATALOGUE.items()}
    entries = [(entry, (*KINDS, index)) for index, entry in enumerate(site.accelerator_kinds)]
    yield from duplicates([(entry.name, (*path, "name")) for entry, path in entries])
    yield from duplicates([(entry.accelerator.pci_id, (*path, "product_id")) for entry, path in entries])
    for entry, path in entries:
        listed = built_in.get(entry.accelerator.pci_id)
        if listed is not None:
            why = f"{entry.accelerator.pci_id} is the built-in kind {listed}"
            yield Finding((*path, "product_id"), why, f"remove the entry, and name {listed} where it is {entry.name}")
        elif entry.name in CATALOGUE:
            card = CATALOGUE[entry.name]
            why = f"is a built-in kind: {card.description}, {card.pci_id}"
            yield Finding((*path, "name"), why, "another name")


def held(cloud: Cloud) -> Counter[str]:
    """Cards of all hypervisors, by kind."""
    total: Counter[str] = Counter()
    for hypervisor in cloud.hypervisors:
        total.update(hypervisor.accelerators)
    return total


def _flavors(cloud: Cloud) -> Iterator[Finding]:
    total = held(cloud)
    for index, flavor in enumerate(cloud.flavors):
        for kind, count in flavor.accelerators.items():
            path: KeyPath = (*FLAVORS, index, "accelerators", kind)
            most = max(h.accelerators.get(kind, 0) for h in cloud.hypervisors)
            if kind not in total:
                # a similar name is that of another card
                fix = f"one of the kinds that hypervisors hold: {', '.join(sorted(total)) or 'none'}"
                yield Finding(path, "no hypervisor holds such a card", fix, (HYPERVISORS,))
            elif count > most:
                why = f"asks for {count} cards of one hypervisor, which holds {most} at most"
                yield Finding(path, why, f"at most {most}" if most else "remove it", (HYPERVISORS,))
        if flavor.accelerators and all(0 < n <= total[k] for k, n in flavor.accelerators.items()):
            singly = all(
                any(h.accelerators.get(k, 0) >= n for h in cloud.hypervisors) for k, n in flavor.accelerators.items()
            )
            together = any(
                all(h.accelerators.get(k, 0) >= n for k, n in flavor.accelerators.items()) for h in cloud.hypervisors
            )
            if singly and not together:
                why = "no hypervisor holds all of these cards together"
                yield Finding((*FLAVORS, index, "accelerators"), why, "cards of one hypervisor", (HYPERVISORS,))


def _instances(cloud: Cloud) -> Iterator[Finding]:
    flavors = {flavor.name: flavor for flavor in cloud.flavors}
    total, asked = held(cloud), Counter[str]()
    reported: set[str] = set()
    for index, instance in enumerate(cloud.instances):
        flavor = flavors.get(instance.flavor)
        for kind, count in (flavor.accelerators if flavor else {}).items():
            asked[kind] += count
            if kind in total and asked[kind] > total[kind] and kind not in reported:
                reported.add(kind)
                requested = sum(
                    flavors[i.flavor].accelerators.get(kind, 0) for i in cloud.instances if i.flavor in flavors
                )
                why = (
                    f"instances ask for {requested} × {kind}, hypervisors hold {total[kind]}; from here on none is left"
                )
                fix = f"fewer instances with {kind}, or more cards"
                yield Finding((*INSTANCES, index, "flavor"), why, fix, (HYPERVISORS, FLAVORS))


def _gpu_instances(cloud: Cloud) -> Iterator[Finding]:
    flavors = {flavor.name: flavor for flavor in cloud.flavors}
    with_cards = [flavor.name for flavor in cloud.flavors if flavor.accelerators]
    for index, instance in enumerate(cloud.instances):
        flavor = flavors.get(instance.flavor)
        if "gpu_node" in instance.roles and flavor is not None and not flavor.accelerators:
            listed = ", ".join(with_cards[:5]) or "a flavor with accelerators"
            why = "has no accelerators, and the role gpu_node needs some"
            yield Finding((*INSTANCES, index, "flavor"), why, f"{listed}, or remove the role", (FLAVORS,))


def _machines(site: Site) -> Iterator[Finding]:
    """Machines whose roles need accelerators; an instance has none to hand out."""
    for index, instance in enumerate(site.cloud.instances if site.cloud else ()):
        if "pci_passthrough" in instance.roles:
            why = "has the role pci_passthrough, which is a hypervisor's"
            yield Finding((*INSTANCES, index, "roles"), why, "list the hypervisor in hosts.machines with the role")
    handed_out = passthrough(site)
    for index, machine in enumerate(site.hosts.machines):
        path: KeyPath = (*MACHINES, index, "roles")
        reads = ((*MACHINES, index, "accelerators"), HYPERVISORS)
        role = next((role for role in ("gpu_node", "pci_passthrough") if role in machine.roles), None)
        if role is not None and not machine.accelerators and not handed_out.get(machine.name):
            fix = "declare its cards (accelerators: {v100: 2}), or remove the role"
            yield Finding(path, f"has the role {role} and no accelerators", fix, reads)
        if {"gpu_node", "pci_passthrough"} <= set(machine.roles):
            why = "has the roles gpu_node and pci_passthrough; its accelerators serve its pods, or instances"
            yield Finding(path, why, "remove one of the two")


def _support(site: Site) -> Iterator[Finding]:
    """The driver and the CUDA of GPU nodes against what still supports their GPUs."""
    if site.cluster is None:
        return
    nodes, path = site.cluster.gpu_nodes, ("cluster", "gpu_nodes")
    for kind, host in sorted({kind: host for host, held in gpu_nodes(site).items() for kind in held}.items()):
        card = site.accelerators[kind]
        capability = ".".join(map(str, card.compute_capability or ()))
        which = f"{kind} ({host}: {card.description}, compute capability {capability})"
        reads = (("cloud",), MACHINES)
        last = card.last_driver_branch
        if last is not None and nodes.driver_branch > last:
            why = f"NVIDIA's driver {nodes.driver_branch} has no support for {which}; {last} is its last"
            yield Finding((*path, "driver_branch"), why, f"driver_branch: {last}, or no GPU nodes with {kind}", reads)
        last = card.last_cuda
        if last is not None and nodes.cuda is not None and nodes.cuda > last:
            why = f"CUDA {nodes.cuda} has no support for {which}; {last} is its last"
            yield Finding((*path, "cuda"), why, f"cuda: {last}, or no GPU nodes with {kind}", reads)


def _tenants(site: Site) -> Iterator[Finding]:
    nodes: Counter[str] = Counter()
    for accelerators in offered(site).values():
        nodes.update(accelerators)
    for index, tenant in enumerate(site.platform.tenants):
        for kind, count in tenant.quota.accelerators.items():
            if count > nodes[kind]:
                path: KeyPath = ("platform", "tenants", index, "quota", "accelerators", kind)
                why = f"allows {count}, the cluster's GPU nodes have {nodes[kind]}"
                less = f"at most {nodes[kind]}" if nodes[kind] else f"remove {kind}"
                fix = f"{less}, or more hosts with {kind} and the role gpu_node"
                yield Finding(path, why, fix, (("cloud",), MACHINES))
