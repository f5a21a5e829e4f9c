"""Variables of the role gpu_node, and what marks its nodes in the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from strata.inventory.kubernetes import cluster_of
from strata.models.accelerator_catalogue import Accelerator
from strata.models.gpu_nodes import gpu_nodes, node_labels, pool_of
from strata.models.site import Site
from strata.site.outputs import CloudOutputs
from strata.toolchain import load_versions


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # every group's signature
    """Group variables of `gpu_node`; labels and taints are read by the role kube_node."""
    marks = cluster_of(site).gpu_nodes
    return {
        "gpu_node_vendors": sorted({a.vendor_id for a in site.accelerators.values()}),
        "gpu_node_versions": dict(load_versions().nvidia),
        "kube_node_taints": list(marks.taints),
    }


def host_variables(site: Site, host: str) -> dict[str, object]:
    """Variables of one host of the group: labels of its kinds of accelerators, and real GPUs' driver."""
    accelerators = gpu_nodes(site).get(host, {})
    labels: dict[str, object] = {"kube_node_labels": node_labels(site, accelerators, host)}
    cards = {site.accelerators[kind]: count for kind, count in accelerators.items()}
    gpus = {card: count for card, count in cards.items() if card.compute_capability}
    if not gpus or site.simulates_accelerators:
        return labels
    driver = {
        "branch": cluster_of(site).gpu_nodes.driver_branch,
        "open_kernel_modules": all(card.open_kernel_modules for card in gpus),
        "gpus": sum(gpus.values()),
        **_mig(site, host, gpus),
    }
    return labels | {"gpu_node_driver": driver, "kubernetes_common_nvidia_runtime": True}


def _mig(site: Site, host: str, gpus: Mapping[Accelerator, int]) -> dict[str, object]:
    """The profile that the host's GPUs must be cut into, and how many instances that makes."""
    pool = pool_of(site, host)
    if pool is None or pool.sharing.mig is None:
        return {}
    profile = pool.sharing.mig
    instances = sum(count * card.mig_profiles.get(profile, 0) for card, count in gpus.items())
    return {"mig_profile": profile, "mig_instances": instances}
