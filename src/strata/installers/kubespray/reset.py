"""The end of a cluster whose hosts stay: Kubespray's reset, and what the state has of the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from strata.access.ssh import Unreachable, run_ssh, wait_for_ssh
from strata.drift.program_state import ProgramState
from strata.engine import playbook_state
from strata.engine.changes.drain import STOP_POD_NETWORK
from strata.engine.machine_nodes import MachineNodes
from strata.errors import UserError
from strata.installers.kubespray.baseline import forget_nodes
from strata.installers.kubespray.commands import RESET, RESET_CONFIRMED, Record, Run
from strata.installers.kubespray.configuration import write_configuration
from strata.installers.kubespray.files import nodes
from strata.installers.kubespray.run import require_kubespray, run_playbook
from strata.layers import NODES
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.data_protection import ProtectedResources
from strata.site.host_list import Host
from strata.site.installer_facts import POD_NETWORK, runs_role
from strata.site.outputs import ClusterOutputs
from strata.stacks import pulumi


def resettable(context: SiteContext) -> tuple[tuple[Host, ...], list[str]]:
    """The nodes that a reset works on, and the names of those that it leaves: the site file no longer has them.

    Raises:
        UserError: the site's installer is another, its hosts do not exist, or Kubespray never ran there.
    """
    require_kubespray(context)
    done = Record.load(context.paths)
    if done is None:
        raise UserError(
            f"site {context.site.name}: Kubespray has not run here, so there is no cluster to reset",
            fix=f"to install one, `strata up {context.site.name}`",
            see="kubespray-failed",
        )
    hosts = nodes(context.site, context.cloud_outputs)
    known = {host.name for host in hosts}
    return hosts, [name for name in done.nodes if name not in known]


def reset(context: SiteContext, progress: Progress) -> int:
    """Removes Kubernetes, etcd and containerd from the nodes, and the cluster from the state; repeated after a failure.

    Args:
        context: the site; its hosts are up.
        progress: shows play and task.

    Returns:
        The number of changes on the nodes.

    Raises:
        UserError: a node does not respond, and nothing was changed; or the playbook failed.
    """
    reset_nodes, _ = resettable(context)
    write_configuration(context)
    wait_for_ssh(context, progress)
    # from here on the cluster is not one that `up` could change
    Record(unfinished=RESET).save(context.paths)
    forget_nodes(context)
    playbook_state.invalidate(context, NODES.name)
    ProgramState(context, "platform", progress).invalidate()
    if runs_role(context.site, POD_NETWORK):
        _stop_pod_network(context, reset_nodes, progress)
    changed = run_playbook(Run(RESET, "requested", variables=RESET_CONFIRMED), context, progress)
    _forget_cluster(context, progress)
    return changed


def _stop_pod_network(context: SiteContext, reset_nodes: Iterable[Host], progress: Progress) -> None:
    for host in reset_nodes:
        progress.update(f"stopping the pod network of {host.name}")
        try:
            # not there where the installation failed before it
            run_ssh(context, host.address, STOP_POD_NETWORK)
        except Unreachable as error:
            raise UserError(
                f"kubespray reset: {host.name}: {error}", fix="run the same command again", see="kubespray-failed"
            ) from None


def _forget_cluster(context: SiteContext, progress: Progress) -> None:
    """Removes what describes the cluster from the state; the record last, because it is what repeats this."""
    paths = context.paths
    progress.update("removing the cluster from the state")
    pulumi.forget("platform", context.site, paths, progress, site_file=context.site_file)
    ProtectedResources.of(paths).without_cluster().save(paths)
    paths.kubeconfig.unlink(missing_ok=True)
    for outputs in (ClusterOutputs, MachineNodes, Record):
        (paths.outputs / outputs.file_name).unlink(missing_ok=True)
