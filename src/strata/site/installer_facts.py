"""What differs between the installers of a cluster; `strata.engine.cluster_installer` runs them."""

from __future__ import annotations

from dataclasses import dataclass

from strata.layers import CLUSTER, KUBESPRAY, NODES, Playbook
from strata.models.site import Site

POD_NETWORK = "pod_network"
"""The role with the pod network of Strata's own."""


@dataclass(frozen=True)
class Installer:
    """One installer.

    Args:
        name: as in `cluster.installer`.
        datastores: those of `cluster.datastore` that it installs.
        by_roles: Strata's roles make hosts nodes; else they find the nodes that the installer made.
        playbooks: whose files and units are compared with the hosts, in the order in which they run.
    """

    name: str
    datastores: tuple[str, ...]
    by_roles: bool
    playbooks: tuple[Playbook, ...]


# an etcd of kubeadm's would need an image that is not built
INSTALLERS = {
    installer.name: installer
    for installer in (
        Installer("kubeadm", datastores=("kine",), by_roles=True, playbooks=(CLUSTER,)),
        Installer("kubespray", datastores=("etcd",), by_roles=False, playbooks=(KUBESPRAY, NODES)),
    )
}
DEFAULT = INSTALLERS["kubeadm"]


def installer_of(site: Site) -> Installer:
    """The installer of a site's cluster; the default where the site file has no section about it."""
    return DEFAULT if site.cluster is None else INSTALLERS[site.cluster.installer]


def runs_role(site: Site, role: str) -> bool:
    """Whether Strata's playbook runs a role of the cluster layer that no host of the site file names."""
    if installer_of(site).by_roles:
        return True
    section = None if site.cluster is None else site.cluster.kubespray
    return role == POD_NETWORK and section is not None and section.network_plugin == "routes"


def virtual_address(site: Site) -> str | None:
    """Address of the API that the installer moves between the control planes; None where it has none."""
    section = None if site.cluster is None else site.cluster.kubespray
    return None if section is None or section.api_address is None else str(section.api_address)


def builds_kubernetes_images(site: Site) -> bool:
    """Whether the site's registry gets images of Kubernetes itself."""
    section = None if site.cluster is None else site.cluster.kubespray
    return installer_of(site).by_roles or (section is not None and section.images == "site")
