"""Pools of GPU nodes: which nodes, and what their GPUs can share."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.accelerator_catalogue import Accelerator
from strata.models.cluster import GpuPool
from strata.models.finding import Finding, duplicates
from strata.models.gpu_nodes import DEFAULT_POOL, gpu_nodes
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.site_file.problems import suggestion

POOLS: KeyPath = ("cluster", "gpu_nodes", "pools")
FIRST_WITH_FULL_MPS = (7, 5)
"""Compute capability from which NVIDIA's MPS control daemon (0.19.3) accepts MPS_CLIENTS pods per GPU, else 16."""
MPS_CLIENTS, FEWER_MPS_CLIENTS = 48, 16


def check(site: Site) -> Iterator[Finding]:
    """Names, nodes and sharing of each pool."""
    pools = site.cluster.gpu_nodes.pools if site.cluster else ()
    yield from duplicates([(pool.name, (*POOLS, index, "name")) for index, pool in enumerate(pools)])
    yield from duplicates(
        [(node, (*POOLS, i, "nodes", j)) for i, pool in enumerate(pools) for j, node in enumerate(pool.nodes)]
    )
    plugin = site.cluster.gpu_nodes.device_plugin if site.cluster else None
    if pools and site.simulates_accelerators:
        yield Finding(POOLS, "the lab's GPUs have no hardware that pods could share", "remove pools", (("cloud",),))
        return
    if pools and plugin not in (None, "nvidia"):
        path: KeyPath = ("cluster", "gpu_nodes", "device_plugin")
        yield Finding(path, "does not share GPUs, and the site has pools", "device_plugin: nvidia", (POOLS,))
    known = gpu_nodes(site)
    for index, pool in enumerate(pools):
        path = (*POOLS, index)
        if pool.name == DEFAULT_POOL:
            yield Finding((*path, "name"), "names the nodes of no pool", "another name, for instance shared")
        for position, node in enumerate(pool.nodes):
            if node not in known:
                fix = suggestion(node, list(known), "hosts with the role gpu_node")
                yield Finding(
                    (*path, "nodes", position), "is not a host with the role gpu_node", fix, (INSTANCES, MACHINES)
                )
        held = {site.accelerators[kind]: node for node in pool.nodes for kind in known.get(node, {})}
        yield from _sharing(pool, path, {card: node for card, node in held.items() if card.compute_capability})


def _sharing(pool: GpuPool, path: KeyPath, gpus: dict[Accelerator, str]) -> Iterator[Finding]:
    sharing, path = pool.sharing, (*path, "sharing")
    reads = (("cloud",), MACHINES)
    if sharing.mps is not None and sharing.time_slicing is not None:
        yield Finding((*path, "mps"), "excludes time_slicing", "remove one of the two", ((*path, "time_slicing"),))
    if sharing.mps is not None and sharing.mig is not None:
        why = "excludes mig: MPS divides whole GPUs"
        yield Finding((*path, "mps"), why, "time_slicing, or remove one of the two", ((*path, "mig"),))
    for card, node in gpus.items():
        which = f"{card.kind} ({node}: {card.description})"
        full = card.compute_capability is not None and card.compute_capability >= FIRST_WITH_FULL_MPS
        most = MPS_CLIENTS if full else FEWER_MPS_CLIENTS
        if sharing.mps is not None and sharing.mps > most:
            yield Finding((*path, "mps"), f"MPS serves {most} pods per {which} at most", f"mps: {most}", reads)
        if sharing.mig is not None and sharing.mig not in card.mig_profiles:
            if card.mig_profiles:
                why, fix = f"{which} has no such MIG profile", f"one of {', '.join(card.mig_profiles)}"
            else:
                why, fix = f"{which} cannot be cut by MIG", f"time_slicing or mps, or a pool without {node}"
            yield Finding((*path, "mig"), why, fix, reads)
