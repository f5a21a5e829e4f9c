"""Hosts with the role gpu_node: their accelerators, and what marks them in the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from strata.models.accelerator_catalogue import Accelerator
from strata.models.cluster import GpuNodes, GpuPool, Sharing
from strata.models.declared_hosts import declared_hosts
from strata.models.site import Site

KIND_LABEL = "strata.dev/accelerator."
"""Prefix of the label that names a kind of accelerator of a node."""

COUNTED_PREFIX = "strata.dev/"
"""Of resources that only reservations request: no node has them."""

POOL_LABEL = "nvidia.com/device-plugin.config"
"""Label that names a node's pool; NVIDIA's device plugin chooses its configuration by it."""

DEFAULT_POOL = "default"
"""Configuration of NVIDIA's device plugin on nodes of no pool."""


def gpu_nodes(site: Site) -> dict[str, Mapping[str, int]]:
    """Accelerators by kind of each host with the role gpu_node, by the host's name."""
    return {host.name: host.accelerators for host in declared_hosts(site) if "gpu_node" in host.roles and host.sized}


def node_labels(site: Site, accelerators: Mapping[str, int], host: str | None = None) -> dict[str, str]:
    """Labels of a GPU node: those of the site, one for each kind of accelerator, and its pool.

    Args:
        site: the site.
        accelerators: of the node.
        host: the node's name; None: the labels that all nodes with these accelerators have.
    """
    own = (site.cluster.gpu_nodes if site.cluster else GpuNodes()).labels
    pool = pool_of(site, host) if host is not None else None
    labels = {**own, **{f"{KIND_LABEL}{kind}": "true" for kind, count in accelerators.items() if count}}
    return labels | ({POOL_LABEL: pool.name} if pool else {})


def counted_as(site: Site, kind: str) -> str:
    """Resource by which reservations count cards of a kind; empty where no other kind of the cluster shares the card's
    resource, which then counts it."""
    kinds = {name for held in gpu_nodes(site).values() for name in held} - {kind}
    shared = any(site.accelerators[name].resource == site.accelerators[kind].resource for name in kinds)
    return f"{COUNTED_PREFIX}{kind}" if shared else ""


def pool_of(site: Site, host: str) -> GpuPool | None:
    """The pool of a GPU node; None where its GPUs are not shared."""
    pools = site.cluster.gpu_nodes.pools if site.cluster else ()
    return next((pool for pool in pools if host in pool.nodes), None)


def offered(site: Site) -> dict[str, dict[str, int]]:
    """What each GPU node offers to pods: by kind, how many pods with one accelerator each fit on it."""
    return {
        host: {kind: count * _shares(site.accelerators[kind], pool_of(site, host)) for kind, count in held.items()}
        for host, held in gpu_nodes(site).items()
    }


def largest_request(site: Site, host: str, kind: str) -> int:
    """Accelerators of a kind that one pod on a node can request; 1 where pods share them in time or by MPS."""
    pool = pool_of(site, host)
    if pool is not None and site.accelerators[kind].compute_capability and replicas(pool.sharing) > 1:
        return 1
    return offered(site)[host].get(kind, 0)


def replicas(sharing: Sharing) -> int:
    """Pods per GPU, or per MIG instance."""
    return sharing.mps or sharing.time_slicing or 1


def _shares(card: Accelerator, pool: GpuPool | None) -> int:
    if pool is None or card.compute_capability is None:
        return 1
    instances = card.mig_profiles.get(pool.sharing.mig, 1) if pool.sharing.mig else 1
    return instances * replicas(pool.sharing)
