"""Pods of the site: how many of each Deployment, StatefulSet and DaemonSet are ready, and what ails the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from strata.observe.facts import WorkloadFacts

KINDS = ("deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch")
"""As kubectl requests them."""
WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
"""Kinds with a line of their own, with what is wrong with their pods."""
SYSTEM_NAMESPACE = "kube-system"
SCALED_TO_0 = "scaled to 0"
SCALED_BY = "strata.dev/scaled-by"
"""Annotation of a Deployment whose replicas a service sets, to none as well."""
STABLE = timedelta(minutes=10)
"""A container that twice in a row has run for less than this is restarting, even while it is ready."""
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
_LONGEST = 200
_STUCK = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""What a pod waits for that does not come by itself."""
_NO_VOLUME = ("FailedMount", "FailedAttachVolume")

Object = Mapping[str, Any]
Owner = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a pod.

    Args:
        text: pod, node and reason.
        command: shows more.
        stuck: whether it does not recover by itself.
        though_ready: whether the pod may be ready at the moment.
    """

    text: str
    command: str
    stuck: bool = False
    though_ready: bool = False


def warnings(events: Iterable[Object]) -> dict[Owner, str]:
    """The newest warning about each object.

    Args:
        events: of the API server, of type Warning.
    """

    def seen(event: Object) -> str:
        return str(event.get("lastTimestamp") or event.get("eventTime") or "")

    # whoever writes an event may leave out any of it
    return {
        (about["kind"], about.get("namespace", ""), about["name"]): _line(
            f"{event.get('reason', '')}: {event.get('message', '')}"
        )
        for event in sorted(events, key=seen)
        if (about := event["involvedObject"]).keys() >= {"kind", "name"}
    }


def in_trouble(items: Iterable[Object]) -> bool:
    """Whether events may show more than the objects do."""
    return any(
        (pod["kind"] == "Pod" and pod["status"].get("phase") not in ("Succeeded", "Failed") and not _is_ready(pod))
        or (pod["kind"] in ("StatefulSet", "DaemonSet") and _missing(pod) > 0)
        for pod in items
    )


def workloads(
    items: Iterable[Object],
    warned: Mapping[Owner, str] | None = None,
    now: datetime | None = None,
) -> tuple[WorkloadFacts, ...]:
    """The workloads of Helm releases and those that the cluster's installer created; other pods that are in trouble.

    Args:
        items: objects of the API server of all kinds, pods among them.
        warned: messages of events about objects.
        now: for the age of containers; None for the clock's.
    """
    items, warned, now = list(items), warned or {}, now or datetime.now(UTC)
    troubles: dict[Owner, list[Trouble]] = {}
    others: list[WorkloadFacts] = []
    owners = {_key(item) for item in items if item["kind"] in WORKLOADS}
    for pod in items:
        if pod["kind"] != "Pod" or not (trouble := _trouble(pod, warned, now)):
            continue
        owner = _owner(pod)
        if owner in owners:
            troubles.setdefault(owner, []).append(trouble)
        elif trouble.stuck or trouble.though_ready or owner == ("Node", SYSTEM_NAMESPACE, pod["spec"].get("nodeName")):
            others.append(_other(pod, trouble))
    return (*_workloads(items, troubles, warned), *_failed_jobs(items), *others)


def _failed_jobs(items: Iterable[Object]) -> Iterator[WorkloadFacts]:
    """Jobs of releases that have given up."""
    for item in items:
        metadata, conditions = item["metadata"], item.get("status", {}).get("conditions", ())
        release = metadata.get("annotations", {}).get(_RELEASE)
        failed = next((c for c in conditions if c["type"] == "Failed" and c["status"] == "True"), None)
        if item["kind"] == "Job" and release is not None and failed is not None:
            namespace, name = metadata["namespace"], metadata["name"]
            yield WorkloadFacts(
                kind="job",
                namespace=namespace,
                name=name,
                release=f"{metadata['annotations'].get(_RELEASE_NAMESPACE, namespace)}/{release}",
                desired=1,
                ready=0,
                reason=str(failed.get("message") or failed.get("reason")),
                command=f"kubectl --namespace {namespace} logs job/{name} --all-containers",
            )


def _workloads(
    items: Iterable[Object], troubles: Mapping[Owner, list[Trouble]], warned: Mapping[Owner, str]
) -> Iterator[WorkloadFacts]:
    for item in items:
        kind, metadata = item["kind"], item["metadata"]
        if kind not in WORKLOADS:
            continue
        annotations = metadata.get("annotations", {})
        release = annotations.get(_RELEASE)
        namespace, name = metadata["namespace"], metadata["name"]
        if release is None and namespace != SYSTEM_NAMESPACE:
            continue
        status = item.get("status", {})
        desired, ready = _pods(item)
        own = troubles.get((kind, namespace, name), [])
        if ready >= desired:
            own = [trouble for trouble in own if trouble.though_ready or trouble.stuck]
        why = [*(trouble.text for trouble in own), *_refused(status)]
        if not why and ready < desired and (warning := warned.get((kind, namespace, name))):
            why = [warning]
        # no other chart of a site deploys none; a DaemonSet has none where no node is selected
        may_be_none = kind == "DaemonSet" or SCALED_BY in annotations
        if not may_be_none and desired == 0:
            why = [SCALED_TO_0]
        described = f"kubectl --namespace {namespace} describe {kind.lower()} {name}"
        yield WorkloadFacts(
            kind=kind.lower(),
            namespace=namespace,
            name=name,
            release=None if release is None else f"{annotations.get(_RELEASE_NAMESPACE, namespace)}/{release}",
            desired=desired if may_be_none else max(desired, 1),
            ready=ready,
            reason="; ".join(dict.fromkeys(why)),
            command=own[0].command if own else described,
        )


def _other(pod: Object, trouble: Trouble) -> WorkloadFacts:
    metadata, ready = pod["metadata"], _is_ready(pod)
    text = trouble.text.removeprefix(f"{metadata['name']} ")
    return WorkloadFacts(
        kind="pod",
        namespace=metadata["namespace"],
        name=metadata["name"],
        release=None,
        desired=1,
        ready=int(ready),
        reason=text,
        command=trouble.command,
    )


def _key(item: Object) -> Owner:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _pods(item: Object) -> tuple[int, int]:
    """Desired and ready pods of a workload."""
    status = item.get("status", {})
    if item["kind"] == "DaemonSet":
        return status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    return item["spec"].get("replicas", 1), status.get("readyReplicas", 0)


def _missing(item: Object) -> int:
    desired, ready = _pods(item)
    return desired - ready


def _owner(pod: Object) -> Owner:
    """The workload of a pod; the pod itself where it has none."""
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences", ()):
        kind, name = owner["kind"], owner["name"]
        if kind == "ReplicaSet":
            suffix = f"-{metadata.get('labels', {}).get('pod-template-hash', '')}"
            return "Deployment", metadata["namespace"], name.removesuffix(suffix)
        return kind, metadata["namespace"], name
    return _key(pod)


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _containers(pod: Object) -> tuple[Object, ...]:
    status = pod.get("status", {})
    return (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))


def _trouble(pod: Object, warned: Mapping[Owner, str], now: datetime) -> Trouble | None:
    """What is wrong with a pod; None if nothing is, or if it has ended well."""
    status, name, node = pod.get("status", {}), pod["metadata"]["name"], pod["spec"].get("nodeName")
    if status.get("phase") == "Succeeded":
        return None
    if node is None:
        scheduled: Object = next((c for c in status.get("conditions", ()) if c["type"] == "PodScheduled"), {})
        return Trouble(f"{name}: {scheduled.get('message') or 'not scheduled yet'}", _describe(pod))
    trouble = _restarting(pod, now) if _is_ready(pod) else _not_ready(pod, warned.get(_key(pod), ""))
    return trouble and replace(trouble, text=f"{name} on {node}: {trouble.text}")


def _not_ready(pod: Object, warning: str) -> Trouble:
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return Trouble("being deleted", _describe(pod))
    if status.get("reason"):
        return Trouble(str(status["reason"]), _describe(pod))
    for container in _containers(pod):
        state, last = container.get("state", {}), container.get("lastState", {}).get("terminated")
        if (waiting := state.get("waiting")) and last:
            return Trouble(f"{waiting['reason']}: {_end(last)}", _logs(pod, container, "--previous"), stuck=True)
        if waiting:
            failed = waiting["reason"] in _STUCK
            text = _text(waiting["reason"], _line(waiting.get("message", "")) if failed else warning)
            return Trouble(text, _describe(pod), stuck=failed or warning.startswith(_NO_VOLUME))
        # an init container that has done its work is ready
        if (ended := state.get("terminated")) and not container.get("ready"):
            return Trouble(_end(ended), _logs(pod, container))
    return Trouble(_text("starting" if status.get("phase") == "Pending" else "not ready", warning), _describe(pod))


def _restarting(pod: Object, now: datetime) -> Trouble | None:
    """Of a pod that is ready at the moment."""
    for container in _containers(pod):
        last, current = container.get("lastState", {}).get("terminated"), container.get("state", {}).get("running")
        if container.get("restartCount", 0) < 2 or not last or not current:
            continue
        age = now - datetime.fromisoformat(current["startedAt"])
        before = datetime.fromisoformat(last["finishedAt"]) - datetime.fromisoformat(last["startedAt"])
        if age < STABLE and before < STABLE:
            times = f"restarted {container['restartCount']} times, the last time {age.total_seconds():.0f} s ago"
            return Trouble(f"{times}: {_end(last)}", _logs(pod, container, "--previous"), though_ready=True)
    return None


def _describe(pod: Object) -> str:
    return f"kubectl --namespace {pod['metadata']['namespace']} describe pod {pod['metadata']['name']}"


def _logs(pod: Object, container: Object, *options: str) -> str:
    where = f"kubectl --namespace {pod['metadata']['namespace']} logs {pod['metadata']['name']}"
    return " ".join((where, "--container", container["name"], *options))


def _text(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason


def _end(terminated: Object) -> str:
    return f"{terminated.get('reason', 'ended')}, exit code {terminated.get('exitCode')}"


def _line(text: str) -> str:
    """Text on one line, cut."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _refused(status: Object) -> Iterator[str]:
    """What the API server refused, such as a pod beyond a quota; a new revision that does not come up."""
    failed = (("ReplicaFailure", "True"), ("Progressing", "False"))
    for condition in status.get("conditions", ()):
        if (condition["type"], condition["status"]) in failed:
            yield str(condition.get("message", condition.get("reason")))
