"""Slurm: partitions against hosts, and hosts against what Slurm can tell apart."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.accelerator_catalogue import NVIDIA_RESOURCE
from strata.models.declared_hosts import declared_hosts
from strata.models.finding import Finding, duplicates
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.site_file.problems import suggestion
from strata_roles.slurm_controller.nodes import ROLE, partition_hosts, partitions, slurm_nodes
from strata_roles.slurm_controller.settings import SlurmPartition

KINDS: KeyPath = ("accelerator_kinds",)
PARTITIONS: KeyPath = ("hosts", "slurm", "partitions")
CONTROLLER = "slurm_controller"


def check(site: Site) -> Iterator[Finding]:
    """Partitions, sizes and cards of hosts, and the releases of their images."""
    yield from _hosts(site)
    yield from _releases(site)
    if declared := partitions(site):
        yield from _partitions(site, declared)


def _hosts(site: Site) -> Iterator[Finding]:
    for host in slurm_nodes(site):
        if "kube_node" in host.roles:
            why = "has the roles slurm_node and kube_node: both would allocate its CPUs and cards"
            yield Finding((*host.path, "roles"), why, "remove one of the two roles")
        for key in ("cpus", "memory"):
            if getattr(host, key) is None:
                why = f"has the role slurm_node and no {key}"
                fix = f"add {key}; `slurmd -C` on the host prints CPUs and RealMemory (MiB)"
                yield Finding((*host.path, "roles"), why, fix)
        for kind in host.accelerators:
            card = site.accelerators[kind]
            if card.category == "gpu" and card.resource != NVIDIA_RESOURCE:
                why = f"has {kind} ({card.description}); slurm_node knows the device files of NVIDIA's GPUs only"
                yield Finding((*host.path, "roles"), why, "remove slurm_node, or the accelerators", (KINDS,))
        gpus = [kind for kind in host.accelerators if site.accelerators[kind].category == "gpu"]
        if len(gpus) > 1:
            why = f"has GPUs of the kinds {' and '.join(gpus)}; Slurm cannot tell which device file is which"
            yield Finding((*host.path, "roles"), why, "one kind of GPU per Slurm host, or remove slurm_node")


def _releases(site: Site) -> Iterator[Finding]:
    """Releases of Debian have versions of Slurm that do not understand each other."""
    if site.cloud is None:
        return
    releases = {image.name: image.release for image in site.cloud.images}
    first: str | None = None
    for index, instance in enumerate(site.cloud.instances):
        if {ROLE, CONTROLLER}.isdisjoint(instance.roles) or instance.image not in releases:
            continue
        release = releases[instance.image]
        first = first or release
        if release != first:
            why = (
                f"is Debian {release}, other Slurm hosts are Debian {first}; their Slurm versions do not work together"
            )
            fix = f"an image of Debian {first}"
            yield Finding((*INSTANCES, index, "image"), why, fix, (("cloud", "images"),))


def _partitions(site: Site, declared: tuple[SlurmPartition, ...]) -> Iterator[Finding]:
    nodes = slurm_nodes(site)
    able, known, used = [node.name for node in nodes], {h.name: h for h in declared_hosts(site)}, set[str]()
    yield from duplicates((p.name, (*PARTITIONS, i, "name")) for i, p in enumerate(declared))
    for index, partition in enumerate(declared):
        path: KeyPath = (*PARTITIONS, index)
        yield from duplicates((name, (*path, "hosts", i)) for i, name in enumerate(partition.hosts))
        for position, name in enumerate(partition.hosts):
            if name not in known:
                fix = suggestion(name, able, "hosts with the role slurm_node")
                yield Finding((*path, "hosts", position), "no host has this name", fix, (INSTANCES, MACHINES))
            elif ROLE not in known[name].roles:
                fix = f"add slurm_node to the roles of {name}, or remove it here"
                yield Finding((*path, "hosts", position), "the host does not have the role slurm_node", fix)
        hosts = partition_hosts(partition, nodes)
        used.update(hosts)
        if not hosts:
            key: KeyPath = (*path, "name" if partition.accelerator is None else "accelerator")
            card = "" if partition.accelerator is None else f" and {partition.accelerator}"
            why = f"no host has the role slurm_node{card}"
            yield Finding(
                key, why, f"give a host{card} the role slurm_node, or remove the partition", (INSTANCES, MACHINES)
            )
    for host in declared_hosts(site):
        if host.name in able and host.name not in used:
            why = "has the role slurm_node and is in no partition of hosts.slurm"
            yield Finding((*host.path, "roles"), why, "add it to a partition, or remove the role", (PARTITIONS,))
