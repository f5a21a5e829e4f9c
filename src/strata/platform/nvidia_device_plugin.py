"""NVIDIA's device plugin with GPU feature discovery, on clusters with real NVIDIA GPUs."""

from __future__ import annotations

import json

from strata.catalogue.needs.accelerators import toleration
from strata.catalogue.service import Values
from strata.models.accelerator_catalogue import NVIDIA_RESOURCE
from strata.models.cluster import Cluster, Sharing
from strata.models.extended_resources import cluster_kinds
from strata.models.gpu_nodes import DEFAULT_POOL, KIND_LABEL, replicas
from strata.models.site import Site
from strata.toolchain import load_versions

CHART = "nvidia-device-plugin"
PLUGIN_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"
FEATURE_IMAGE = "registry.k8s.io/nfd/node-feature-discovery"
RUNTIME_CLASS = "nvidia"
"""Of the plugin's own pods; the role kubernetes_common gives containerd the runtime."""
CDI_HOOK = "/usr/bin/nvidia-cdi-hook"
"""Of the package nvidia-container-toolkit-base, on the nodes."""


def nvidia_kinds(site: Site) -> list[str]:
    """Kinds of GPUs that NVIDIA's device plugin offers, sorted."""
    chosen = site.cluster.gpu_nodes.device_plugin if site.cluster else None
    if (chosen or ("built-in" if site.simulates_accelerators else "nvidia")) != "nvidia":
        return []
    return [kind for kind in cluster_kinds(site) if site.accelerators[kind].compute_capability]


def built_in_kinds(site: Site) -> list[str]:
    """Kinds of accelerators that Strata's own device plugin offers, sorted."""
    others = site.cluster is not None and site.cluster.gpu_nodes.device_plugin == "none"
    nvidia = nvidia_kinds(site)
    gpus = {kind for kind, card in site.accelerators.items() if card.category == "gpu"}
    return [kind for kind in cluster_kinds(site) if kind not in nvidia and not (others and kind in gpus)]


def values(site: Site, cluster: Cluster) -> Values:
    """Values of the chart nvidia-device-plugin."""
    tags = load_versions().charts[CHART].image_tags
    tolerations = [toleration(taint) for taint in cluster.gpu_nodes.taints]
    kinds = [{"matchExpressions": [_has(kind)]} for kind in nvidia_kinds(site)]
    return {
        "image": {"repository": PLUGIN_IMAGE, "tag": tags[PLUGIN_IMAGE]},
        "runtimeClassName": RUNTIME_CLASS,
        # pods need no runtime class: containerd adds what the plugin's CDI file names. An image's own
        # NVIDIA_VISIBLE_DEVICES is without effect
        "deviceListStrategy": "cdi-cri",
        "nvidiaDriverRoot": "/",
        "cdi": {"nvidiaHookPath": CDI_HOOK},
        # labels of the site file, not of node-feature-discovery: known before the first of these pods runs
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": kinds}}},
        "tolerations": tolerations,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "gfd": {"enabled": True},
        "nfd": {
            "image": {"repository": FEATURE_IMAGE, "tag": tags[FEATURE_IMAGE]},
            "worker": {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": kinds}}
                },
                "tolerations": tolerations,
            },
        },
        **_sharing(site, cluster),
    }


def _has(kind: str) -> Values:
    return {"key": f"{KIND_LABEL}{kind}", "operator": "In", "values": ["true"]}


def _sharing(site: Site, cluster: Cluster) -> Values:
    """Without MIG, the plugin runs without rights; a strategy here overrides that of the configurations."""
    plain: Values = {"migStrategy": "none"}
    if not cluster.gpu_nodes.pools:
        return plain
    texts = {name: json.dumps(configuration) for name, configuration in configurations(site).items()}
    with_mig = any(pool.sharing.mig for pool in cluster.gpu_nodes.pools)
    return {"config": {"map": texts, "default": DEFAULT_POOL}, **({} if with_mig else plain)}


def configurations(site: Site) -> dict[str, Values]:
    """The plugin's configuration file of each pool (version v1), and that of the nodes of no pool."""
    pools = site.cluster.gpu_nodes.pools if site.cluster else ()
    by_pool = {DEFAULT_POOL: _configuration(Sharing())}
    return by_pool | {pool.name: _configuration(pool.sharing) for pool in pools}


def _configuration(sharing: Sharing) -> Values:
    # single: an instance counts as nvidia.com/gpu, as a whole GPU does elsewhere
    flags = {"migStrategy": "single" if sharing.mig else "none"}
    if replicas(sharing) == 1:
        return {"version": "v1", "flags": flags}
    shared: Values = {"resources": [{"name": NVIDIA_RESOURCE, "replicas": replicas(sharing)}]}
    if sharing.mps:
        return {"version": "v1", "flags": flags, "sharing": {"mps": shared}}
    # two shares of one GPU give a pod no more time than one
    shared["failRequestsGreaterThanOne"] = True
    return {"version": "v1", "flags": flags, "sharing": {"timeSlicing": shared}}
