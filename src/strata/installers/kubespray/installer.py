"""Kubespray as an installer of `strata up`."""

from __future__ import annotations

from strata.access.kubectl import Unanswered
from strata.access.ssh import Unreachable, run_ssh
from strata.drift.cluster import cluster_drift
from strata.drift.hosts import settled_hosts_drift
from strata.engine.playbook_step import playbook_step
from strata.errors import UserError
from strata.installers.kubespray.commands import INSTALL, Record, Run, check_nodes
from strata.installers.kubespray.marks import is_mark, restore_marks
from strata.installers.kubespray.run import prepare, run_all
from strata.installers.kubespray.source import PROGRAM, ensure_source, pinned
from strata.layers import KUBESPRAY, NODES, Layer, Step, StepResult
from strata.models.declared_hosts import declared_hosts
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.toolchain.python_environment import ensure_environment

RENEWAL = "k8s-certs-renew.service"
RENEWAL_SECONDS = 600.0
"""It restarts the control plane's pods, one after the other."""


class KubesprayInstaller:
    """Kubespray's playbooks, then Strata's roles on the nodes."""

    node_tools: tuple[str, ...] = ()

    def preparation(self, context: SiteContext) -> list[Step]:
        """The check of what site.yaml removes, and the pinned playbooks with their Ansible."""
        return [
            Step("control planes", Layer.CLOUD, lambda progress: _check(context, progress)),
            Step("Kubespray", Layer.CLUSTER, _fetch, ("control planes",)),
        ]

    def install(self, context: SiteContext, progress: Progress, *, thorough: bool) -> StepResult:
        """Runs the playbooks that the change of the site, or drift of its nodes, needs; then those of Strata's roles.

        Args:
            context: the site; its hosts are up.
            progress: shows play and task.
            thorough: run Kubespray, whether or not anything asks for it.

        Raises:
            UserError: a playbook failed; names host, task and message.
        """
        asked, restored = prepare(context), 0
        if not asked:
            progress.update("checking the nodes for drift")
            reason, restored = _repair(context)
            asked = [Run(INSTALL, reason)] if reason else []
        done = run_all(context, asked or ([Run(INSTALL, "asked for")] if thorough else []), progress)
        on_top = playbook_step(context, NODES.name, thorough)(progress)
        detail = done or ["Kubespray skipped: no change since its last success, no drift"]
        if restored:
            detail = [f"{restored} labels, taints and cordons repaired", *detail]
        # it reports changes on nodes that are as it left them: what counts is whether anything asked for it
        return StepResult(len(asked) + restored + on_top.changed, "; ".join([*detail, on_top.detail]))

    def renew_certificates(self, context: SiteContext, progress: Progress) -> None:
        """By the unit that Kubespray's timer starts each month.

        Raises:
            UserError: a host refused, or does not respond.
        """
        for host in hosts_with("kube_control_plane", context.site, context.cloud_outputs):
            progress.update(f"renewing the certificates of {host.name}")
            try:
                done = run_ssh(context, host.address, f"systemctl start {RENEWAL}", seconds=RENEWAL_SECONDS)
                reason = done.stderr.strip() if done.returncode != 0 else ""
            except Unreachable as error:
                reason = str(error)
            if reason:
                raise UserError(
                    f"kubespray: {host.name}: {RENEWAL}: {reason}",
                    fix=f"see `journalctl -u {RENEWAL}` on {host.name}, then run the same command again",
                    see="kubespray-failed",
                )


def _check(context: SiteContext, progress: Progress) -> StepResult:
    progress.update("comparing the control planes with the cluster's")
    done = Record.load(context.paths)
    if done is not None:
        check_nodes(done, {host.name: host.roles for host in declared_hosts(context.site)})
    return StepResult(0, "the cluster is not installed" if done is None else f"{len(done.nodes)} nodes recorded")


def _fetch(progress: Progress) -> StepResult:
    source = ensure_source(progress)
    ensure_environment(PROGRAM, progress)
    return StepResult(0, f"{pinned()[0]} in {source}")


def _repair(context: SiteContext) -> tuple[str | None, int]:
    """Why Kubespray has to run, or None; and how many marks of nodes were restored without it."""
    try:
        drift = [*settled_hosts_drift(context, [KUBESPRAY]), *cluster_drift(context)]
    except Unanswered as error:
        return str(error), 0
    others = [item for item in drift if not is_mark(item)]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        return f"{others[0].object}: {others[0].property} is {others[0].found}{more}", 0
    return None, restore_marks(context, drift)
