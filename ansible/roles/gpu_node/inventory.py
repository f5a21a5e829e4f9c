"""Variables of the role gpu_node, and what marks its nodes in the cluster."""

from __future__ import annotations

from strata.inventory.kubernetes import cluster_of
from strata.models import Site
from strata.models.accelerators import CATALOGUE
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Group variables of `gpu_node`; labels and taints are read by the role kube_node."""
    marks = cluster_of(site).gpu_nodes
    return {
        "gpu_node_vendors": sorted({a.vendor_id for a in CATALOGUE.values()}),
        "kube_node_labels": dict(marks.labels),
        "kube_node_taints": list(marks.taints),
    }
