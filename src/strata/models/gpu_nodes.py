"""Hosts with the role gpu_node: their accelerators, and what marks them in the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from strata.models.cluster import GpuNodes
from strata.models.site import Site

KIND_LABEL = "strata.dev/accelerator."
"""Prefix of the label that names a kind of accelerator of a node."""


def gpu_nodes(site: Site) -> dict[str, Mapping[str, int]]:
    """Accelerators by kind of each host with the role gpu_node, by the host's name."""
    flavors = {flavor.name: flavor for flavor in (site.cloud.flavors if site.cloud else ())}
    found: dict[str, Mapping[str, int]] = {
        instance.name: flavors[instance.flavor].accelerators
        for instance in (site.cloud.instances if site.cloud else ())
        if "gpu_node" in instance.roles and instance.flavor in flavors
    }
    return found | {m.name: m.accelerators for m in site.hosts.machines if "gpu_node" in m.roles}


def node_labels(site: Site, accelerators: Mapping[str, int]) -> dict[str, str]:
    """Labels of a GPU node: those of the site, and one for each kind of accelerator."""
    own = (site.cluster.gpu_nodes if site.cluster else GpuNodes()).labels
    return {**own, **{f"{KIND_LABEL}{kind}": "true" for kind, count in accelerators.items() if count}}
