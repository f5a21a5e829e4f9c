"""What the variables of the cluster's roles share."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from strata.inventory.port_numbers import REGISTRY
from strata.models.cluster import Cluster
from strata.models.site import Site
from strata.site.host_list import address_of
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths

UPSTREAM_REPOSITORY = "registry.k8s.io"
"""Where the images come from on a site without a registry of its own."""


def cluster_of(site: Site) -> Cluster:
    """The site's cluster; its defaults where hosts have the roles but the site does not set it."""
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
    if pushed is None or "kube-apiserver" not in pushed.images:
        return f"{registry_name(site)}/kubernetes"
    return pushed.images["kube-apiserver"].repository.rpartition("/")[0]


def endpoint(address: str, port: int) -> str:
    """HTTPS URL of an address; IPv6 in brackets."""
    parsed = ip_address(address)
    host = f"[{parsed}]" if isinstance(parsed, IPv6Address) else str(parsed)
    return f"https://{host}:{port}"
