"""Accelerators as Kubernetes sees them: extended resources of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from strata.models import Site
from strata.models.accelerators import CATALOGUE


def cluster_kinds(site: Site) -> list[str]:
    """Kinds of cards that the site's GPU nodes have, sorted."""
    kinds: set[str] = set()
    if site.cloud is not None:
        flavors = {flavor.name: flavor for flavor in site.cloud.flavors}
        for instance in site.cloud.instances:
            if "gpu_node" in instance.roles:
                kinds.update(flavors[instance.flavor].accelerators)
    for machine in site.hosts.machines:
        if "gpu_node" in machine.roles:
            kinds.update(machine.accelerators)
    return sorted(kinds)


def cluster_resources(site: Site) -> list[str]:
    """Extended resources of the cluster, sorted."""
    return sorted({CATALOGUE[kind].resource for kind in cluster_kinds(site)})


def by_resource(counts: Mapping[str, int]) -> dict[str, int]:
    """Cards by kind as counts of extended resources; kinds that share a resource add up."""
    found: dict[str, int] = {}
    for kind, count in counts.items():
        resource = CATALOGUE[kind].resource
        found[resource] = found.get(resource, 0) + count
    return found
