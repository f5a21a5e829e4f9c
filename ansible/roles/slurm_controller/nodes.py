"""Hosts with the role slurm_node, and their partitions."""

from __future__ import annotations

from collections.abc import Iterable

from strata.models.declared_hosts import DeclaredHost, declared_hosts
from strata.models.site import Site
from strata_roles.slurm_controller.settings import Slurm, SlurmPartition

ROLE = "slurm_node"


def slurm_nodes(site: Site) -> tuple[DeclaredHost, ...]:
    """The hosts on which Slurm runs jobs, in the order of site.yaml."""
    return tuple(host for host in declared_hosts(site) if ROLE in host.roles and host.sized)


def partitions(site: Site) -> tuple[SlurmPartition, ...]:
    """The partitions of site.yaml; none without the section."""
    section = site.hosts.section(Slurm)
    return section.partitions if section else ()


def partition_hosts(partition: SlurmPartition, nodes: Iterable[DeclaredHost]) -> tuple[str, ...]:
    """Names of a partition's hosts."""
    if partition.hosts:
        return partition.hosts
    return tuple(n.name for n in nodes if partition.accelerator is None or n.accelerators.get(partition.accelerator))
