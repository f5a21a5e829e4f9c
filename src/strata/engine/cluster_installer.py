"""Installers of the cluster behind one interface, and the choice between them."""

from __future__ import annotations

from typing import Protocol

from strata.engine.ansible import run_playbook
from strata.engine.playbook_step import playbook_step
from strata.layers import CLUSTER, Step, StepResult
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.installer_facts import POD_NETWORK, builds_kubernetes_images, installer_of, runs_role

IMAGE_TOOLS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns")
"""What the images of Kubernetes itself are built from."""
ALWAYS = ("kubectl", "pause", "gpu-device-plugin")


class ClusterInstaller(Protocol):
    """Brings the hosts of a site to a cluster, and keeps it as site.yaml and versions.yaml have it."""

    @property
    def node_tools(self) -> tuple[str, ...]:
        """Pinned tools that it copies to nodes and to the host of its datastore."""

    def preparation(self, context: SiteContext) -> list[Step]:
        """Steps that need no host; they come before any layer changes something."""

    def install(self, context: SiteContext, progress: Progress, *, thorough: bool) -> StepResult:
        """Installs the cluster, or changes it where anything asks for it, and stores the administrator's kubeconfig.

        Args:
            context: the site; its hosts are configured.
            progress: shows what runs.
            thorough: run everything, whether or not anything asks for it.

        Raises:
            UserError: it failed; the same command resumes.
        """

    def renew_certificates(self, context: SiteContext, progress: Progress) -> None:
        """Has the certificates of the control planes reissued, one host after the other.

        Raises:
            UserError: a host refused, or does not respond.
        """


class Kubeadm:
    """kubeadm by Strata's own roles."""

    node_tools = ("kubelet", "kubeadm", "kine")

    def preparation(self, context: SiteContext) -> list[Step]:  # noqa: ARG002  # the interface's
        """Nothing: its playbook and tools are those of the other layers."""
        return []

    def install(self, context: SiteContext, progress: Progress, *, thorough: bool) -> StepResult:
        """Runs the playbook of the cluster, if it has anything to do."""
        return playbook_step(context, CLUSTER.name, thorough)(progress)

    def renew_certificates(self, context: SiteContext, progress: Progress) -> None:
        """By the role kube_control_plane."""
        run_playbook(context, CLUSTER.name, progress, extra_variables={"kube_control_plane_renew_certificates": True})


def cluster_installer(context: SiteContext) -> ClusterInstaller:
    """The installer that the site file names."""
    if installer_of(context.site).by_roles:
        return Kubeadm()
    from strata.installers.kubespray.installer import KubesprayInstaller  # noqa: PLC0415  # the one late choice

    return KubesprayInstaller()


def cluster_tools(context: SiteContext) -> tuple[str, ...]:
    """Pinned tools that the cluster, its images and Strata's roles on its nodes need."""
    site = context.site
    images = IMAGE_TOOLS if builds_kubernetes_images(site) else ()
    policies = ("network-policies",) if runs_role(site, POD_NETWORK) else ()
    return (*ALWAYS, *images, *cluster_installer(context).node_tools, *policies)
