"""Variables of every machine of a cluster: roles kubernetes_common and pod_network."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from strata.inventory import Template
from strata.models import Site
from strata.models.cluster import Cluster
from strata.outputs import CloudOutputs
from strata.toolchain import bin_directory, load_versions

REGISTRY_PORT = 5000
UPSTREAM_REPOSITORY = "registry.k8s.io"
"""Where the images come from on a site without a registry of its own."""

AUTHORITY = Template("{{ lookup('strata_ca') }}")


def addresses_of(role: str, site: Site, outputs: CloudOutputs | None) -> dict[str, str]:
    """Name and address of each host with a role: instances of the cloud, then machines."""
    found = {i.name: i.address for i in outputs.instances.values() if role in i.roles} if outputs else {}
    return found | {m.name: str(m.address) for m in site.hosts.machines if role in m.roles}


def cluster_of(site: Site) -> Cluster:
    """The site's cluster; its defaults where hosts have the roles but the site says nothing about it."""
    return site.cluster or Cluster(name="platform")


def registry_name(site: Site) -> str:
    """Name and port in image references."""
    return f"registry.{site.domain}:{REGISTRY_PORT}"


def image_repository(site: Site, outputs: CloudOutputs | None) -> str:
    """Where kubeadm's images come from: the site's registry where it has one."""
    if addresses_of("registry", site, outputs):
        return f"{registry_name(site)}/kubernetes"
    return UPSTREAM_REPOSITORY


def endpoint(address: str, port: int) -> str:
    """HTTPS URL of an address; IPv6 in brackets."""
    parsed = ip_address(address)
    host = f"[{parsed}]" if isinstance(parsed, IPv6Address) else str(parsed)
    return f"https://{host}:{port}"


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Group variables of `kubernetes`.

    Args:
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    versions, binaries = load_versions().tools, bin_directory()
    registries = list(addresses_of("registry", site, outputs).values())
    registry: dict[str, object] = {}
    if registries:
        registry = {
            "name": registry_name(site),
            "endpoint": endpoint(registries[0], REGISTRY_PORT),
            "ca": AUTHORITY,
        }
    return {
        "kubernetes_common_binaries": {name: str(binaries / name) for name in ("kubeadm", "kubelet")},
        "kubernetes_common_registry": registry,
        "kubernetes_common_pause_image": f"{image_repository(site, outputs)}/pause:{versions['pause'].version}",
        "pod_network_cidr": str(cluster_of(site).pod_network),
    }
