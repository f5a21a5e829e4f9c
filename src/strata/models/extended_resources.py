"""Accelerators as Kubernetes sees them: extended resources of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from strata.models.gpu_nodes import counted_as, gpu_nodes
from strata.models.site import Site


def cluster_kinds(site: Site) -> list[str]:
    """Kinds of cards that the site's GPU nodes have, sorted."""
    return sorted({kind for held in gpu_nodes(site).values() for kind in held})


def cluster_resources(site: Site) -> list[str]:
    """Extended resources of the cluster, sorted."""
    return sorted({site.accelerators[kind].resource for kind in cluster_kinds(site)})


def quota(site: Site, counts: Mapping[str, int]) -> dict[str, int]:
    """What a quota of cards by kind limits: extended resources, and kinds that share one, which servers and jobs are
    also counted by."""
    kinds = {name: counts.get(kind, 0) for kind in cluster_kinds(site) if (name := counted_as(site, kind))}
    return by_resource(site, counts) | kinds


def by_resource(site: Site, counts: Mapping[str, int]) -> dict[str, int]:
    """Cards by kind as counts of extended resources; kinds that share a resource add up."""
    totals: dict[str, int] = {}
    for kind, count in counts.items():
        resource = site.accelerators[kind].resource
        totals[resource] = totals.get(resource, 0) + count
    return totals
