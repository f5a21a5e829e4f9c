"""The storage class for claims of tenants: csi-driver-nfs, or its substitute where kernels have no NFS client."""

from __future__ import annotations

from collections.abc import Mapping

from strata.catalogue.service import Values, image
from strata.image_reference import ImageReference
from strata.models.platform import StorageClass
from strata.models.site import Site
from strata.provider import provider_of
from strata.roles import roles
from strata.toolchain import load_versions

CHART = "csi-driver-nfs"
NAME = "nfs"
IMAGES = {
    "nfs": "nfsplugin",
    "csiProvisioner": "csi-provisioner",
    "csiResizer": "csi-resizer",
    "livenessProbe": "livenessprobe",
    "nodeDriverRegistrar": "csi-node-driver-registrar",
}
"""The chart's keys to the images in registry.k8s.io/sig-storage."""


def uses_substitute(site: Site) -> bool:
    """Whether the driver's containers could not mount NFS on the site's nodes."""
    return not provider_of(site).kernel_nfs


def values(site: Site, settings: StorageClass, images: Mapping[str, ImageReference]) -> Values:
    """Values of the chart csi-driver-nfs."""
    (server,) = roles()["nfs_server"].dns_names
    return {
        # the driver's chart ignores the key `substitute`
        "image": {**_images(), "substitute": _substitute_image(images)},
        # on nodes, which may mount the export; the chart tolerates the control plane's taints
        "controller": {"enableSnapshotter": False, "tolerations": []},
        "storageClasses": [
            {
                "name": NAME,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                "parameters": {
                    # by name, because a volume's source cannot change
                    "server": f"{server}.{site.domain}",
                    "share": f"/{settings.export}",
                    # the last part differs for each claim, also for one of the same name
                    "subDir": "${pvc.metadata.namespace}-${pvc.metadata.name}-${pv.metadata.name}",
                    # users of pods are any numbers; other tenants' pods cannot mount the folder
                    "mountPermissions": "0777",
                },
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate",
                "allowVolumeExpansion": False,
                "mountOptions": ["nfsvers=4.1", "hard", "noatime", "nosuid", "nodev"],
            }
        ],
    }


def _images() -> Values:
    tags = load_versions().charts[CHART].image_tags
    names = {key: f"registry.k8s.io/sig-storage/{name}" for key, name in IMAGES.items()}
    return {key: {"repository": name, "tag": tags[name]} for key, name in names.items()}


def _substitute_image(images: Mapping[str, ImageReference]) -> Values:
    """Python, by its digest: the chart writes a colon between name and tag."""
    reference = image(images, "pod-base")
    algorithm, _, digest = reference["digest"].partition(":")
    return {"repository": f"{reference['repository']}@{algorithm}", "tag": digest}
