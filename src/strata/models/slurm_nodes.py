"""Hosts with the role slurm_node: their size, their accelerators and their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.models.site import Site
from strata.models.slurm import SlurmPartition
from strata.models.types import Size

ROLE = "slurm_node"


@dataclass(frozen=True)
class SlurmNode:
    """A host on which Slurm runs jobs.

    Args:
        name: of the host.
        cpus: number of CPUs; None if a machine of the site file does not specify it.
        memory: of the host, as in the site file; None as with cpus.
        accelerators: kind to number.
    """

    name: str
    cpus: int | None
    memory: Size | None
    accelerators: Mapping[str, int]


def slurm_nodes(site: Site) -> tuple[SlurmNode, ...]:
    """Instances, sized by their flavors, then machines, as they are declared."""
    flavors = {flavor.name: flavor for flavor in (site.cloud.flavors if site.cloud else ())}
    found = [
        SlurmNode(i.name, flavor.vcpus, flavor.memory, flavor.accelerators)
        for i in (site.cloud.instances if site.cloud else ())
        if ROLE in i.roles and (flavor := flavors.get(i.flavor)) is not None
    ]
    found += [SlurmNode(m.name, m.cpus, m.memory, m.accelerators) for m in site.hosts.machines if ROLE in m.roles]
    return tuple(found)


def partition_hosts(partition: SlurmPartition, nodes: tuple[SlurmNode, ...]) -> tuple[str, ...]:
    """Names of a partition's hosts."""
    if partition.hosts:
        return partition.hosts
    return tuple(n.name for n in nodes if partition.accelerator is None or n.accelerators.get(partition.accelerator))
