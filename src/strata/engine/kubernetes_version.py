"""Upgrades of Kubernetes: which are possible, and what they disrupt; nothing here changes the site."""

from __future__ import annotations

from strata.engine.changes.disruption import Approval, ApprovalNeeded, Disruption
from strata.errors import UserError
from strata.layers import Layer, Step, StepResult
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import ClusterOutputs
from strata.toolchain import load_versions


def require_next_minor(before: str, after: str) -> None:
    """Refuses what Kubernetes does not support.

    Args:
        before: version that the cluster runs, such as 1.35.4.
        after: version in versions.yaml.

    Raises:
        UserError: a minor version would be skipped, or it is older.
    """
    old, new = ([int(part) for part in version.lstrip("v").split(".")[:2]] for version in (before, after))
    if new[0] != old[0] or not 0 <= new[1] - old[1] <= 1:
        raise UserError(
            f"versions.yaml: components.kubernetes.version = {after}: the cluster runs {before}, "
            "and Kubernetes is upgraded by one minor version at a time",
            fix=f"check out the release of Strata with Kubernetes {old[0]}.{old[1] + (1 if new > old else 0)} first",
            see="a-version-of-kubernetes-would-be-skipped",
        )


def upgraded_nodes(context: SiteContext) -> list[Disruption]:
    """Workers that `up` would drain and upgrade, after the control planes.

    Raises:
        UserError: the upgrade is not possible.
    """
    known = ClusterOutputs.load(context.paths)
    version = load_versions().tools["kubelet"].version
    if known is None or (before := known.kubernetes_version.lstrip("v")) == version:
        return []
    require_next_minor(before, version)
    workers = hosts_with("kube_node", context.site, context.cloud_outputs)
    because = (f"Kubernetes {before} → {version}",)
    return [Disruption(host.name, "upgraded", because) for host in workers if "kube_control_plane" not in host.roles]


def version_step(context: SiteContext, approval: Approval) -> Step:
    """A step that refuses an upgrade which is not possible, or was not approved, before any layer changes something."""

    def run(progress: Progress) -> StepResult:
        progress.update("comparing the version of Kubernetes with the cluster's")
        upgrades = upgraded_nodes(context)
        if refused := [upgrade for upgrade in upgrades if not approval.covers(upgrade)]:
            raise ApprovalNeeded(refused, context.site.name)
        return StepResult(0, f"{len(upgrades)} nodes are upgraded" if upgrades else "no upgrade")

    return Step("Kubernetes version", Layer.CLUSTER, run)
