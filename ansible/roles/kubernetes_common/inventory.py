"""Variables of the role kubernetes_common."""

from __future__ import annotations

from strata.inventory import Template
from strata.inventory.clients import NODES, NODES_SECRET
from strata.inventory.kubernetes import endpoint, image_repository, registry_name
from strata.inventory.port_numbers import REGISTRY
from strata.inventory.topology import secret
from strata.models.site import Site
from strata.site.host_list import address_of
from strata.site.outputs import CloudOutputs
from strata.toolchain import bin_directory, load_versions


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The pinned binaries, and the site's registry where it has one."""
    versions, binaries = load_versions().tools, bin_directory()
    address = address_of("registry", site, outputs)
    registry: dict[str, object] = {}
    if address is not None:
        registry = {
            "name": registry_name(site),
            "endpoint": endpoint(address, REGISTRY),
            "ca": Template("{{ lookup('strata_ca') }}"),
            "user": NODES,
            "password": secret(NODES_SECRET),
        }
    return {
        "kubernetes_common_version": versions["kubelet"].version,
        "kubernetes_common_binaries": {name: str(binaries / name) for name in ("kubeadm", "kubelet")},
        "kubernetes_common_registry": registry,
        "kubernetes_common_pause_image": f"{image_repository(site, outputs)}/pause:{versions['pause'].version}",
    }
