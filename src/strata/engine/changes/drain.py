"""Takes nodes out of the cluster before their machines go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress

from strata.access.kubectl import Unanswered, kubectl, kubectl_json, run_kubectl
from strata.access.ssh import Unreachable, host_addresses, run_ssh
from strata.engine.changes.disruption import Approval, Disruption, leaving_nodes, require_approval
from strata.engine.data_volumes import stop_instances
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext

STOP_POD_NETWORK = "systemctl disable --now network-policies pod-network"
"""The units of the role pod_network, which ask the API server; no installer knows them."""
DRAIN_SECONDS = 180
"""How long pods may take to end, their disruption budgets included."""
ANSWER_SECONDS = 90.0
"""How long the API server may take to answer; after `strata down` it starts with its machine."""


def prepare_cloud(context: SiteContext, approval: Approval, progress: Progress) -> int:
    """What must come before the cloud's program: approval, and nodes drained that are about to go or to be stopped.

    Returns:
        Number of nodes taken out of the cluster.

    Raises:
        ApprovalNeeded: an instance would be disrupted, which was not approved.
        UserError: a node could not be drained.
    """
    disrupted = require_approval(context, approval, progress)
    workers = _disrupted_workers(context, disrupted)
    # one whose disk is lost joins again
    gone = [*leaving_nodes(context), *(worker.instance for worker in workers if worker.effect != "resized")]
    removed = remove_nodes(context, gone, approval, progress) if gone else 0
    stopped = [worker.instance for worker in workers if worker.effect == "resized"]
    if stopped:
        empty_nodes(context, stopped, approval, progress)
    stop_instances(
        context, [disruption.instance for disruption in disrupted if disruption.effect == "replaced"], progress
    )
    return removed


def _disrupted_workers(context: SiteContext, disrupted: Iterable[Disruption]) -> list[Disruption]:
    cloud = context.site.cloud
    workers = {i.name for i in cloud.instances if "kube_node" in i.roles} if cloud else set()
    return [disruption for disruption in disrupted if disruption.instance in workers]


def empty_nodes(context: SiteContext, names: Iterable[str], approval: Approval, progress: Progress) -> None:
    """Cordons and drains nodes whose machines are about to stop and come back; the role kube_node uncordons them.

    Pods that could run nowhere else wait for it, so a node is emptied and not asked whether others have room.

    Args:
        context: the site.
        names: nodes; one that the cluster does not have is passed over.
        approval: `--yes` also takes nodes whose cluster does not respond.
        progress: receives status messages.

    Raises:
        UserError: the cluster does not respond, or a pod does not leave; names it.
    """
    for name in _reachable_members(context, names, approval, progress):
        _drain(context, name, progress)


def remove_nodes(context: SiteContext, names: Iterable[str], approval: Approval, progress: Progress) -> int:
    """Cordons and drains each node, resets it, and deletes its Node object.

    Arguments and errors as of `empty_nodes`.

    Returns:
        How many of them the cluster had.
    """
    members = _reachable_members(context, names, approval, progress)
    for name in members:
        _drain_unless_lost(context, name, progress)
        progress.update(f"taking {name} out of the cluster")
        _reset(context, name)
        _kubectl(context, "delete", "node", name, "--ignore-not-found", "--timeout=60s")
    return len(members)


def _reachable_members(context: SiteContext, names: Iterable[str], approval: Approval, progress: Progress) -> list[str]:
    """Those of the names that are nodes; none where there is no cluster, or one that `--yes` gives up."""
    if not context.paths.kubeconfig.exists():
        return []
    try:
        members = _members(context, progress)
    except Unanswered as error:
        if approval.everything:
            return []
        raise UserError(
            f"{', '.join(names)} cannot be drained: the cluster is {error}",
            fix=f"bring the cluster back with the node in the site file, or take it undrained: "
            f"strata up {context.site.name} --yes",
        ) from None
    return [name for name in names if name in members]


def _members(context: SiteContext, progress: Progress) -> set[str]:
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            nodes = kubectl_json(context, "get", "nodes")
        except (Unanswered, json.JSONDecodeError) as error:
            if time.monotonic() > end:
                raise error if isinstance(error, Unanswered) else Unanswered(str(error)) from None
            progress.update("waiting for the cluster's API server")
            time.sleep(1)
            continue
        return {node["metadata"]["name"] for node in nodes["items"]}


def _drain_unless_lost(context: SiteContext, name: str, progress: Progress) -> None:
    """Drains a node; of one whose kubelet is gone, the pods end with its Node object."""
    if _is_lost(context, name):
        return
    try:
        _drain(context, name, progress)
    except UserError:
        if not _is_lost(context, name):  # the cluster notices after 40 s
            raise


def _drain(context: SiteContext, name: str, progress: Progress) -> None:
    progress.update(f"draining {name}")
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={DRAIN_SECONDS}s")
    try:
        done = run_kubectl(context, "drain", name, *options, seconds=DRAIN_SECONDS + 60)
        lines = done.stderr.splitlines() if done.returncode != 0 else []
        failed = done.returncode != 0
    except Unanswered as error:
        lines, failed = [str(error)], True
    if failed:
        said = [line for line in lines if "error" in line.lower()] or lines
        raise UserError(
            f"node {name} cannot be drained: {'; '.join(said[-3:])}",
            fix=f"see what keeps its pods (kubectl get poddisruptionbudgets -A), then the same command again; "
            f"the node stays cordoned until `kubectl uncordon {name}`",
        )


def _is_lost(context: SiteContext, name: str) -> bool:
    """Whether the node's kubelet has not reported for so long that the cluster calls its state unknown."""
    try:
        node = kubectl_json(context, "get", "node", name)
    except (Unanswered, json.JSONDecodeError):
        return False
    return any(c["type"] == "Ready" and c["status"] == "Unknown" for c in node["status"]["conditions"])


def _reset(context: SiteContext, name: str) -> None:
    """Ends the kubelet, which would register the node again; a machine that does not respond needs none."""
    address = host_addresses(context).get(name)
    if address is None:
        return
    command = (
        f"systemctl disable --now kubelet; {STOP_POD_NETWORK}; "
        "kubeadm reset --force >/dev/null 2>&1; rm -rf /etc/cni/net.d /etc/kubernetes"
    )
    with suppress(Unreachable):
        run_ssh(context, address, command, seconds=120)


def _kubectl(context: SiteContext, *arguments: str) -> None:
    try:
        kubectl(context, *arguments, seconds=DRAIN_SECONDS + 60)
    except Unanswered as error:
        raise UserError(f"kubectl {arguments[0]}: {error}", fix="the same command again") from None
