"""How tenants' quotas divide a cluster that is smaller than all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.models.declared_hosts import declared_hosts
from strata.models.gpu_nodes import gpu_nodes
from strata.models.site import Site

CPU = "cpu"
MEMORY = "memory"


@dataclass(frozen=True)
class Share:
    """Of one resource.

    Args:
        guaranteed: what the tenant gets even if all others ask for theirs.
        lent: what it may borrow beyond that, up to its quota.
    """

    guaranteed: int
    lent: int


@dataclass(frozen=True)
class Shares:
    """Of one resource, for all tenants.

    Args:
        of_tenants: by tenant; none for one whose quota is 0.
        rest: of the cluster, guaranteed to none and lent to all.
    """

    of_tenants: Mapping[str, Share]
    rest: int


def divide(quotas: Mapping[str, int], capacity: int | None) -> Shares:
    """Each tenant's share in proportion to its quota.

    Args:
        quotas: by tenant, in whole units.
        capacity: of the cluster; None: not known, which counts as enough.
    """
    total = sum(quotas.values())
    if capacity is None or total <= capacity:
        return Shares({name: Share(quota, 0) for name, quota in quotas.items()}, 0)
    own = {name: quota * capacity // total for name, quota in quotas.items()}
    by_tenant = {name: Share(own[name], quota - own[name]) for name, quota in quotas.items()}
    return Shares(by_tenant, capacity - sum(own.values()))


def capacity(site: Site) -> dict[str, int | None]:
    """CPUs (thousandths) and memory (MiB) of the cluster's nodes; None where the site file does not specify it.

    What Kubernetes itself needs on a node is not deducted.
    """
    nodes = [host for host in declared_hosts(site) if "kube_node" in host.roles]
    cpus, memory = [node.cpus for node in nodes], [node.memory for node in nodes]
    return {
        CPU: None if None in cpus else 1000 * sum(filter(None, cpus)),
        MEMORY: None if None in memory else sum(size.mebibytes for size in memory if size is not None),
    }


def cards(site: Site) -> dict[str, int]:
    """Cards of the cluster's nodes, by kind, sorted."""
    counts: dict[str, int] = {}
    for held in gpu_nodes(site).values():
        for kind, count in held.items():
            counts[kind] = counts.get(kind, 0) + count
    return dict(sorted(counts.items()))
