"""Variables of the role slurm_common."""

from __future__ import annotations

from strata.inventory.topology import secret
from strata.models.declared_hosts import DeclaredHost
from strata.models.site import Site
from strata.roles import port
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs
from strata_roles.slurm_controller.nodes import partition_hosts, partitions, slurm_nodes
from strata_roles.slurm_controller.settings import SlurmPartition

MEMORY_PERCENT = 90
"""Part of a host's memory that jobs may use; a node that finds less than in slurm.conf gets no jobs."""


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The cluster's hosts and partitions, and MUNGE's key, which every host of it has."""
    addresses = {host.name: host.address for host in hosts_with("slurm_node", site, outputs)}
    nodes = tuple(node for node in slurm_nodes(site) if node.name in addresses)
    controller = next(iter(hosts_with("slurm_controller", site, outputs)), None)
    return {
        "slurm_common_cluster": site.name,
        "slurm_common_controller": {"name": controller.name, "address": controller.address} if controller else {},
        "slurm_common_controller_port": port("slurm_controller", "slurmctld"),
        "slurm_common_node_port": port("slurm_node"),
        "slurm_common_nodes": [_node(site, node, addresses[node.name]) for node in nodes],
        "slurm_common_partitions": [_partition(partition, nodes) for partition in partitions(site)],
        # a job that requests no memory gets its part of the smallest host
        "slurm_common_memory_per_cpu": min((_memory(n) // (n.cpus or 1) for n in nodes), default=1),
        "slurm_common_munge_key": secret("slurm_munge_key"),
    }


def _node(site: Site, node: DeclaredHost, address: str) -> dict[str, object]:
    """Size and cards; cards are numbered by category, as their device files are."""
    cards = [
        {"name": site.accelerators[kind].category, "type": kind, "count": count}
        for kind, count in node.accelerators.items()
    ]
    return {"name": node.name, "address": address, "cpus": node.cpus, "memory": _memory(node), "cards": cards}


def _memory(node: DeclaredHost) -> int:
    """For jobs, in MiB."""
    assert node.memory is not None, "the site's checks require it"
    return node.memory.bytes // 2**20 * MEMORY_PERCENT // 100


def _partition(partition: SlurmPartition, nodes: tuple[DeclaredHost, ...]) -> dict[str, object]:
    limits = {
        "DefaultTime": partition.default_minutes,
        "MaxTime": partition.maximum_minutes,
        "MaxNodes": partition.maximum_hosts,
    }
    known = {node.name for node in nodes}
    return {
        "name": partition.name,
        "hosts": [name for name in partition_hosts(partition, nodes) if name in known],
        "limits": {name: value for name, value in limits.items() if value is not None},
    }
