"""Deployments, StatefulSets and DaemonSets of the site: how many of their pods are ready, and why others are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strata.observe.facts import WorkloadFacts

KINDS = ("deployments.apps", "statefulsets.apps", "daemonsets.apps")
"""As kubectl requests them."""
SYSTEM_NAMESPACE = "kube-system"
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"

Object = Mapping[str, Any]


def workloads(items: Iterable[Object]) -> tuple[WorkloadFacts, ...]:
    """The workloads of Helm releases, and those that the cluster's installer created.

    Args:
        items: objects of the API server of all kinds, pods among them.
    """
    items = list(items)
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for pod in items:
        if pod["kind"] == "Pod" and (owner := _owner(pod)) and (reason := _not_ready(pod)):
            reasons.setdefault(owner, []).append(reason)
    return tuple(_workloads(items, reasons))


def _workloads(items: Iterable[Object], reasons: Mapping[tuple[str, str, str], list[str]]) -> Iterator[WorkloadFacts]:
    for item in items:
        kind, metadata = item["kind"], item["metadata"]
        if kind not in ("Deployment", "StatefulSet", "DaemonSet"):
            continue
        annotations = metadata.get("annotations", {})
        release = annotations.get(_RELEASE)
        namespace, name = metadata["namespace"], metadata["name"]
        if release is None and namespace != SYSTEM_NAMESPACE:
            continue
        status = item.get("status", {})
        if kind == "DaemonSet":
            desired, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        else:
            desired, ready = item["spec"].get("replicas", 1), status.get("readyReplicas", 0)
        why = [*reasons.get((kind, namespace, name), ()), *_refused(status)]
        if kind != "DaemonSet" and desired == 0:
            why = ["scaled to 0"]
        yield WorkloadFacts(
            kind=kind.lower(),
            namespace=namespace,
            name=name,
            release=None if release is None else f"{annotations.get(_RELEASE_NAMESPACE, namespace)}/{release}",
            # no chart of a site deploys none; a DaemonSet has none where no node is selected
            desired=desired if kind == "DaemonSet" else max(desired, 1),
            ready=ready,
            reason="; ".join(dict.fromkeys(why)),
        )


def _owner(pod: Object) -> tuple[str, str, str] | None:
    """Kind, namespace and name of the workload of a pod."""
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences", ()):
        kind, name = owner["kind"], owner["name"]
        if kind == "ReplicaSet":
            suffix = f"-{metadata.get('labels', {}).get('pod-template-hash', '')}"
            return "Deployment", metadata["namespace"], name.removesuffix(suffix)
        return kind, metadata["namespace"], name
    return None


def _not_ready(pod: Object) -> str:
    """Why a pod is not ready, with its node; empty if it is ready."""
    status, conditions = pod.get("status", {}), {c["type"]: c for c in pod.get("status", {}).get("conditions", [])}
    if conditions.get("Ready", {}).get("status") == "True":
        return ""
    node = pod["spec"].get("nodeName")
    if node is None:
        return str(conditions.get("PodScheduled", {}).get("message") or "not scheduled yet")
    return f"{_reason(pod, status)} on {node}"


def _reason(pod: Object, status: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "being deleted"
    if status.get("reason"):
        return str(status["reason"])
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state = container.get("state", {})
        if why := state.get("waiting", {}).get("reason"):
            return str(why)
        ended = state.get("terminated")
        # an init container that has done its work is ready
        if ended and not container.get("ready"):
            return f"{ended.get('reason', 'ended')}, exit code {ended.get('exitCode')}"
    return "starting" if status.get("phase") == "Pending" else "not ready"


def _refused(status: Object) -> Iterator[str]:
    """What the API server refused, such as a pod beyond a quota."""
    for condition in status.get("conditions", ()):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            yield str(condition.get("message", condition.get("reason")))
