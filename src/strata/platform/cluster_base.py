"""What every cluster needs: priority and storage classes, the device plugin, policies for the cluster's DNS."""

from __future__ import annotations

from collections.abc import Mapping

from strata.catalogue.needs.accelerators import toleration
from strata.catalogue.needs.metrics import SCRAPERS
from strata.catalogue.service import Values, image
from strata.image_reference import ImageReference
from strata.inventory.topology import host_networks_with
from strata.models.accelerator_catalogue import NVIDIA_RESOURCE
from strata.models.cluster import Cluster
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import RUNTIME_CLASS, built_in_kinds, nvidia_kinds
from strata.site.outputs import CloudOutputs


def values(site: Site, cluster: Cluster, outputs: CloudOutputs | None, images: Mapping[str, ImageReference]) -> Values:
    """Values of helm/cluster-base."""
    servers = host_networks_with(("kube_control_plane",), site, outputs)  # API servers advertise these
    return {
        "devicePlugin": _device_plugin(site, cluster, images),
        "runtimeClasses": [RUNTIME_CLASS] if nvidia_kinds(site) else [],
        "networkPolicies": {"apiServer": {"networks": servers}, "metricsClients": list(SCRAPERS)},
    }


def _device_plugin(site: Site, cluster: Cluster, images: Mapping[str, ImageReference]) -> Values:
    """For what NVIDIA's plugin does not offer; a cluster without such accelerators gets none."""
    kinds = built_in_kinds(site)
    if not kinds:
        return {"enabled": False}
    resources: dict[str, list[dict[str, str]]] = {}
    for kind in kinds:
        card = site.accelerators[kind]
        device = {"vendor": card.vendor_id, "device": card.product_id}
        resources.setdefault(card.resource, []).append(device)
    return {
        "enabled": True,
        "image": image(images, "gpu-device-plugin"),
        "resources": [
            {"name": name, "environment": _environment(name), "devices": devices}
            for name, devices in sorted(resources.items())
        ],
        "nodeSelector": dict(cluster.gpu_nodes.labels),
        "tolerations": [toleration(taint) for taint in cluster.gpu_nodes.taints],
    }


def _environment(resource: str) -> str:
    """The variable with a container's cards; NVIDIA's is what its runtime reads."""
    if resource == NVIDIA_RESOURCE:
        return "NVIDIA_VISIBLE_DEVICES"
    return resource.rpartition("/")[2].upper().replace("-", "_").replace(".", "_") + "_VISIBLE_DEVICES"
