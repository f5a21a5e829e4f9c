"""Variables of the role gpu_node, and what marks its nodes in the cluster."""

from __future__ import annotations

from strata.inventory.kubernetes import cluster_of
from strata.models import Site
from strata.models.accelerators import CATALOGUE
from strata.models.gpu_nodes import gpu_nodes, node_labels
from strata.provider import provider_of
from strata.site.outputs import CloudOutputs
from strata.toolchain import load_versions


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Group variables of `gpu_node`; labels and taints are read by the role kube_node."""
    marks = cluster_of(site).gpu_nodes
    return {
        "gpu_node_vendors": sorted({a.vendor_id for a in CATALOGUE.values()}),
        "gpu_node_versions": dict(load_versions().nvidia),
        "kube_node_taints": list(marks.taints),
    }


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Variables of one host of the group: labels of its kinds of accelerators, and real GPUs' driver."""
    accelerators = gpu_nodes(site).get(host, {})
    labels: dict[str, object] = {"kube_node_labels": node_labels(site, accelerators, host)}
    gpus = {CATALOGUE[kind]: count for kind, count in accelerators.items() if CATALOGUE[kind].compute_capability}
    if not gpus or provider_of(site).simulates_accelerators:
        return labels
    driver = {
        "branch": cluster_of(site).gpu_nodes.driver_branch,
        "open_kernel_modules": all(card.open_kernel_modules for card in gpus),
        "gpus": sum(gpus.values()),
    }
    return labels | {"gpu_node_driver": driver, "kubernetes_common_nvidia_runtime": True}
