"""What `strata status` shows of pods that are down, from objects as the API server returns them, cut down."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strata.observe import ClusterFacts, Observation
from strata.observe.status import site_status
from strata.observe.workloads import SCALED_BY, in_trouble, warnings, workloads
from strata.site.context import SiteContext

RELEASE = {"meta.helm.sh/release-name": "jupyterhub", "meta.helm.sh/release-namespace": "jupyterhub"}
Item = dict[str, Any]


def workload(kind: str, name: str, desired: int, ready: int, namespace: str = "jupyterhub", **more: Any) -> Item:
    annotations = RELEASE if namespace == "jupyterhub" else {}
    status = {"readyReplicas": ready, **more} if ready else more
    if kind == "DaemonSet":
        status = {"desiredNumberScheduled": desired, "numberReady": ready}
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {} if kind == "DaemonSet" else {"replicas": desired},
        "status": status,
    }


def pod(owner: str, name: str, status: Item, *, node: str | None = "worker-1", deleted: bool = False) -> Item:
    suffix = "-6c9f" if owner == "ReplicaSet" else ""
    metadata: Item = {
        "name": f"{name}{suffix}-x",
        "namespace": "jupyterhub",
        "labels": {"pod-template-hash": "6c9f"},
        "ownerReferences": [{"kind": owner, "name": f"{name}{suffix}"}],
    } | ({"deletionTimestamp": "2026-11-23T00:00:00Z"} if deleted else {})
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def container(**state: Any) -> Item:
    not_ready = [{"type": "Ready", "status": "False"}]
    return {
        "phase": "Running",
        "conditions": not_ready,
        "containerStatuses": [{"name": "hub", "ready": False, "state": state}],
    }


NOW = datetime(2026, 11, 26, 10, tzinfo=UTC)
NO_NODE = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: …"}]}
REFUSED = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([workload("Deployment", "hub", 1, 1)], "1 ready"),
        ([workload("Deployment", "hub", 0, 0)], "0 of 1 ready: scaled to 0"),
        ([workload("DaemonSet", "hub", 0, 0)], "0 ready"),
        ([workload("DaemonSet", "hub", 3, 2)], "2 of 3 ready"),
        ([workload("Deployment", "hub", 1, 0, conditions=[REFUSED])], "0 of 1 ready: exceeded quota: pods"),
        (
            [
                workload("Deployment", "hub", 1, 0),
                pod("ReplicaSet", "hub", container(waiting={"reason": "CrashLoopBackOff"})),
            ],
            "0 of 1 ready: hub-6c9f-x on worker-1: CrashLoopBackOff",
        ),
        (
            [
                workload("StatefulSet", "hub", 1, 0),
                pod("StatefulSet", "hub", container(terminated={"reason": "OOMKilled", "exitCode": 137})),
            ],
            "0 of 1 ready: hub-x on worker-1: OOMKilled, exit code 137",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", NO_NODE, node=None)],
            "0 of 1 ready: hub-x: 0/3 nodes: …",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", container(running={}), deleted=True)],
            "0 of 1 ready: hub-x on worker-1: being deleted",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", container(running={}))],
            "0 of 1 ready: hub-x on worker-1: not ready",
        ),
    ],
)
def test_a_workload_shows_how_many_of_its_pods_are_ready_and_why_not(items: list[Item], expected: str) -> None:
    (facts,) = workloads(items)
    assert facts.state == expected
    assert (facts.state == facts.wanted) == (" of " not in expected)


def test_a_deployment_that_a_service_scales_may_have_no_pods() -> None:
    model = workload("Deployment", "model", 0, 0)
    model["metadata"]["annotations"] = {**RELEASE, SCALED_BY: "inference"}
    (facts,) = workloads([model])
    assert facts.state == facts.wanted == "0 ready"
    failing = {**model, "spec": {"replicas": 1}}
    (facts,) = workloads([failing, pod("ReplicaSet", "model", container(waiting={"reason": "ImagePullBackOff"}))])
    assert facts.state != facts.wanted


def test_a_pod_of_another_workload_or_without_one_is_not_a_reason() -> None:
    stranger = pod("ReplicaSet", "hub-2", container(waiting={"reason": "ImagePullBackOff"}))
    notebook = {"kind": "Pod", "metadata": {"name": "jupyter-ada", "namespace": "jupyterhub"}, "spec": {}, "status": {}}
    hub, pulled = workloads([workload("Deployment", "hub", 1, 0), stranger, notebook])
    assert hub.state == "0 of 1 ready"
    assert (pulled.kind, pulled.name) == ("pod", "hub-2-6c9f-x")
    assert pulled.state == "0 of 1 ready: on worker-1: ImagePullBackOff"


@pytest.mark.parametrize("owner", [None, "Job"])
def test_a_stuck_pod_that_no_workload_answers_for_is_named(owner: str | None) -> None:
    """A user's server, an execution point, or the pod of a Job: nothing else in status shows of them."""
    pulled = container(waiting={"reason": "ImagePullBackOff", "message": "not found"})
    stuck = pod(owner or "Pod", "ada", pulled)
    job = {"kind": "Job", "metadata": {"name": "ada", "namespace": "jupyterhub"}, "spec": {}, "status": {}}
    if owner is None:
        del stuck["metadata"]["ownerReferences"]
    (facts,) = workloads([job, stuck])
    assert (facts.kind, facts.name, facts.state) == (
        "pod",
        "ada-x",
        "0 of 1 ready: on worker-1: ImagePullBackOff: not found",
    )
    assert facts.command == "kubectl --namespace jupyterhub describe pod ada-x"


def event(kind: str, name: str, reason: str, message: str, second: int = 0) -> Item:
    about = {"kind": kind, "namespace": "jupyterhub", "name": name}
    time = f"2026-11-26T10:00:{second:02}Z"
    return {"involvedObject": about, "reason": reason, "message": message, "lastTimestamp": time}


@pytest.mark.parametrize(
    ("items", "events", "reason", "command"),
    [
        (
            [
                workload("Deployment", "hub", 1, 0),
                pod("ReplicaSet", "hub", container(waiting={"reason": "ErrImagePull", "message": "not\nfound"})),
            ],
            [event("Pod", "hub-6c9f-x", "Failed", "Error: ErrImagePull")],
            "hub-6c9f-x on worker-1: ErrImagePull: not found",
            "kubectl --namespace jupyterhub describe pod hub-6c9f-x",
        ),
        (
            [
                workload("StatefulSet", "hub", 1, 0),
                pod("StatefulSet", "hub", container(waiting={"reason": "ContainerCreating"})),
            ],
            [
                event("Pod", "hub-x", "FailedMount", "mount.nfs4: Connection timed out", second=2),
                event("Pod", "hub-x", "FailedScheduling", "before", second=1),
                event("Pod", "hub-y", "FailedMount", "another pod", second=3),
            ],
            "hub-x on worker-1: ContainerCreating: FailedMount: mount.nfs4: Connection timed out",
            "kubectl --namespace jupyterhub describe pod hub-x",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", container(running={}))],
            [event("Pod", "hub-x", "Unhealthy", "Readiness probe failed: timeout")],
            "hub-x on worker-1: not ready: Unhealthy: Readiness probe failed: timeout",
            "kubectl --namespace jupyterhub describe pod hub-x",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0)],
            [event("StatefulSet", "hub", "FailedCreate", "exceeded quota: tenant")],
            "FailedCreate: exceeded quota: tenant",
            "kubectl --namespace jupyterhub describe statefulset hub",
        ),
        (
            [
                workload("StatefulSet", "hub", 1, 0),
                pod("StatefulSet", "hub", container(terminated={"reason": "Error", "exitCode": 1})),
            ],
            [],
            "hub-x on worker-1: Error, exit code 1",
            "kubectl --namespace jupyterhub logs hub-x --container hub",
        ),
    ],
)
def test_a_workload_shows_the_reason_and_what_to_run(
    items: list[Item], events: list[Item], reason: str, command: str
) -> None:
    assert in_trouble(items)
    (facts,) = workloads(items, warnings(events))
    assert facts.state == f"0 of 1 ready: {reason}"
    assert facts.command == command


def test_an_event_about_nothing_breaks_no_status() -> None:
    """Kubernetes requires none of an event's fields."""
    about_nothing: Item = {"involvedObject": {"kind": "Node"}, "reason": "Rebooted", "lastTimestamp": None}
    assert warnings([about_nothing, {"involvedObject": {}}]) == {}
    assert warnings([{"involvedObject": {"kind": "Node", "name": "worker-1"}}]) == {("Node", "", "worker-1"): ":"}


@pytest.mark.parametrize(
    ("restarts", "ran", "age", "named"),
    [(2, 30, 40, True), (1, 30, 40, False), (2, 700, 40, False), (9, 30, 700, False)],
)
def test_a_pod_that_restarts_repeatedly_is_named_while_it_is_ready(
    restarts: int, ran: int, age: int, named: bool
) -> None:
    ended = NOW - timedelta(seconds=age)
    last = {
        "reason": "OOMKilled",
        "exitCode": 137,
        "startedAt": (ended - timedelta(seconds=ran)).isoformat(),
        "finishedAt": ended.isoformat(),
    }
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "hub",
                "ready": True,
                "restartCount": restarts,
                "state": {"running": {"startedAt": ended.isoformat()}},
                "lastState": {"terminated": last},
            }
        ],
    }
    items = [workload("StatefulSet", "hub", 1, 1), pod("StatefulSet", "hub", status)]
    assert not in_trouble(items)
    (facts,) = workloads(items, now=NOW)
    why = "hub-x on worker-1: restarted 2 times, the last time 40 s ago: OOMKilled, exit code 137"
    assert facts.state == (f"1 of 1 ready: {why}" if named else "1 ready")
    assert facts.command.endswith("logs hub-x --container hub --previous" if named else "describe statefulset hub")


def test_a_new_revision_that_does_not_start_is_named_beside_the_old_one() -> None:
    pulled = pod("ReplicaSet", "hub", container(waiting={"reason": "ImagePullBackOff", "message": "not found"}))
    (facts,) = workloads([workload("Deployment", "hub", 1, 1), pulled])
    assert facts.state == "1 of 1 ready: hub-6c9f-x on worker-1: ImagePullBackOff: not found"
    starting = pod("ReplicaSet", "hub", container(waiting={"reason": "ContainerCreating"}))
    (facts,) = workloads([workload("Deployment", "hub", 1, 1), starting])
    assert facts.state == "1 ready"
    late = {"type": "Progressing", "status": "False", "message": 'ReplicaSet "hub-6c9f" has timed out progressing.'}
    (facts,) = workloads([workload("Deployment", "hub", 1, 1, conditions=[late]), starting])
    assert facts.state == '1 of 1 ready: ReplicaSet "hub-6c9f" has timed out progressing.'


def test_a_job_of_a_release_that_has_failed_is_named() -> None:
    failed = {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}
    metadata = {"name": "load", "namespace": "jupyterhub", "annotations": RELEASE}
    job = {"kind": "Job", "metadata": metadata, "spec": {}, "status": {"conditions": [failed]}}
    (facts,) = workloads([job])
    assert (facts.kind, facts.release) == ("job", "jupyterhub/jupyterhub")
    assert facts.state == "0 of 1 ready: Job has reached the specified backoff limit"
    assert facts.command == "kubectl --namespace jupyterhub logs job/load --all-containers"
    assert workloads([job | {"status": {"conditions": [failed | {"type": "Complete"}]}}]) == ()
    assert workloads([job | {"metadata": metadata | {"annotations": {}}}]) == ()


def test_a_part_of_the_control_plane_that_is_not_ready_is_named() -> None:
    scheduler = pod("Node", "kube-scheduler", container(running={}), node="control-1")
    scheduler["metadata"] |= {"namespace": "kube-system", "ownerReferences": [{"kind": "Node", "name": "control-1"}]}
    (facts,) = workloads([scheduler])
    assert (facts.kind, facts.name, facts.state) == ("pod", "kube-scheduler-x", "0 of 1 ready: on control-1: not ready")
    mine = pod("Job", "train", container(running={}))
    assert workloads([mine]) == ()


def test_status_names_a_service_that_is_down(context: SiteContext, running: Callable[..., Observation]) -> None:
    """The release itself is deployed; a workload that is neither a release's nor the cluster's is the users' own."""
    seen = running()
    facts = workloads(
        [
            workload("Deployment", "hub", 1, 0),
            workload("Deployment", "coredns", 2, 2, namespace="kube-system"),
            workload("Deployment", "experiment", 1, 0, namespace="research"),
        ]
    )
    cluster = ClusterFacts(nodes=seen.cluster.nodes, workloads=facts)
    status = site_status(context, seen.model_copy(update={"cluster": cluster}))
    assert [(o.layer, o.object, o.wanted, o.found) for o in status if not o.healthy] == [
        ("platform", "jupyterhub: deployment hub", "1 ready", "0 of 1 ready")
    ]
    assert "deployment coredns" in {o.object for o in status if o.layer == "cluster"}
    assert not any("experiment" in o.object for o in status)
