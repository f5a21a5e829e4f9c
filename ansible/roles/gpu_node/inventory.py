"""Variables of the role gpu_node, and what marks its nodes in the cluster."""

from __future__ import annotations

from strata.inventory.kubernetes import cluster_of
from strata.models import Site
from strata.models.accelerators import CATALOGUE
from strata.models.gpu_nodes import gpu_nodes, node_labels
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Group variables of `gpu_node`; labels and taints are read by the role kube_node."""
    marks = cluster_of(site).gpu_nodes
    return {
        "gpu_node_vendors": sorted({a.vendor_id for a in CATALOGUE.values()}),
        "kube_node_taints": list(marks.taints),
    }


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Variables of one host of the group: labels that name its kinds of accelerators."""
    return {"kube_node_labels": node_labels(site, gpu_nodes(site).get(host, {}))}
