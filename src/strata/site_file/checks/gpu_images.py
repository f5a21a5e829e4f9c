"""Images of nodes with real GPUs: whether their container runtime can give the GPUs to pods."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.compute import Image
from strata.models.finding import Finding
from strata.models.gpu_nodes import gpu_nodes
from strata.models.key_path import INSTANCES
from strata.models.site import Site

FIRST_WITH_CDI = 13
"""Debian release whose containerd (1.7) has the Container Device Interface; Debian 12 has 1.6."""


def check(site: Site) -> Iterator[Finding]:
    """GPU nodes on instances run a Debian that can use NVIDIA's driver in pods; the role gpu_node checks machines."""
    cloud, cluster = site.cloud, site.cluster
    if cloud is None or cluster is None or site.simulates_accelerators:
        return
    # Kubespray installs containerd from its release; the built-in plugin is for GPUs without hardware
    if cluster.installer != "kubeadm" or cluster.gpu_nodes.device_plugin == "built-in":
        return
    images = {image.name: image for image in cloud.images}
    newer = [image.name for image in cloud.images if _has_cdi(image)]
    held = gpu_nodes(site)
    for index, instance in enumerate(cloud.instances):
        kinds = held.get(instance.name, {})
        gpu = next((kind for kind, n in kinds.items() if n and site.accelerators[kind].compute_capability), None)
        image = images.get(instance.image)
        if gpu is not None and image is not None and not _has_cdi(image):
            why = (
                f"is Debian {image.release}, whose containerd has no Container Device Interface, by which pods get the "
                f"{gpu} of {instance.name}"
            )
            fix = f"image: {newer[0]}" if newer else f'an image with release: "{FIRST_WITH_CDI}" in cloud.images'
            yield Finding((*INSTANCES, index, "image"), why, f"{fix}; or installer: kubespray", (("cloud", "images"),))


def _has_cdi(image: Image) -> bool:
    major = image.release.partition(".")[0]
    return not major.isdigit() or int(major) >= FIRST_WITH_CDI
