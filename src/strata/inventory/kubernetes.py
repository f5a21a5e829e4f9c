"""Variables of every machine of a cluster: roles kubernetes_common and pod_network."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address

from strata.inventory import Template
from strata.inventory.ports import HTTP, HTTPS, KUBERNETES_API, POSTGRESQL, REGISTRY
from strata.inventory.registry import NODES, NODES_SECRET
from strata.inventory.topology import host_networks, secret
from strata.models import Site
from strata.models.cluster import Cluster
from strata.site.hosts import address_of, hosts_with
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths
from strata.toolchain import bin_directory, load_versions

UPSTREAM_REPOSITORY = "registry.k8s.io"
"""Where the images come from on a site without a registry of its own."""

POD_SERVICES: Mapping[str, tuple[int, ...]] = {
    "kube_control_plane": (KUBERNETES_API,),
    "postgresql": (POSTGRESQL,),
    "load_balancer": (HTTP, HTTPS),
}
"""TCP ports of hosts that pods may reach, by role; nodes refuse every other one. Network policies restrict further."""


def cluster_of(site: Site) -> Cluster:
    """The site's cluster; its defaults where hosts have the roles but the site says nothing about it."""
    return site.cluster or Cluster(name="platform")


def registry_name(site: Site) -> str:
    """Name and port in image references."""
    return f"registry.{site.domain}:{REGISTRY}"


def image_repository(site: Site, outputs: CloudOutputs | None) -> str:
    """Where kubeadm's images come from: the folder of the site's registry that they were pushed to.

    Upstream where the site has no registry of its own.
    """
    if address_of("registry", site, outputs) is None:
        return UPSTREAM_REPOSITORY
    pushed = ImageOutputs.load(SitePaths(site.name))
    if pushed is None:
        return f"{registry_name(site)}/kubernetes"
    return pushed.images["kube-apiserver"].rpartition("/")[0]


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
        "kubernetes_common_binaries": {name: str(binaries / name) for name in ("kubeadm", "kubelet")},
        "kubernetes_common_registry": registry,
        "kubernetes_common_pause_image": f"{image_repository(site, outputs)}/pause:{versions['pause'].version}",
        "pod_network_cidr": str(cluster_of(site).pod_network),
        "pod_network_hosts": host_networks(site),
        "pod_network_host_services": [
            {"address": host.address, "port": port}
            for role, ports in POD_SERVICES.items()
            for host in hosts_with(role, site, outputs)
            for port in ports
        ],
        "pod_network_policies_binary": str(binaries / "network-policies"),
    }
