"""What `strata status` shows of pods that are down, from objects as the API server returns them, cut down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strata.observe import ClusterFacts, Observation
from strata.observe.status import site_status
from strata.observe.workloads import workloads
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
    return {"phase": "Running", "conditions": not_ready, "containerStatuses": [{"ready": False, "state": state}]}


NO_NODE = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: …"}]}
REFUSED = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}


@pytest.mark.parametrize(
    ("items", "found"),
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
            "0 of 1 ready: CrashLoopBackOff on worker-1",
        ),
        (
            [
                workload("StatefulSet", "hub", 1, 0),
                pod("StatefulSet", "hub", container(terminated={"reason": "OOMKilled", "exitCode": 137})),
            ],
            "0 of 1 ready: OOMKilled, exit code 137 on worker-1",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", NO_NODE, node=None)],
            "0 of 1 ready: 0/3 nodes: …",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", container(running={}), deleted=True)],
            "0 of 1 ready: being deleted on worker-1",
        ),
        (
            [workload("StatefulSet", "hub", 1, 0), pod("StatefulSet", "hub", container(running={}))],
            "0 of 1 ready: not ready on worker-1",
        ),
    ],
)
def test_a_workload_says_how_many_of_its_pods_are_ready_and_why_not(items: list[Item], found: str) -> None:
    (one,) = workloads(items)
    assert one.state == found
    assert (one.state == one.wanted) == (" of " not in found)


def test_a_pod_of_another_workload_or_without_one_is_no_reason() -> None:
    stranger = pod("ReplicaSet", "hub-2", container(waiting={"reason": "ImagePullBackOff"}))
    notebook = {"kind": "Pod", "metadata": {"name": "jupyter-ada", "namespace": "jupyterhub"}, "spec": {}, "status": {}}
    (one,) = workloads([workload("Deployment", "hub", 1, 0), stranger, notebook])
    assert one.state == "0 of 1 ready"


def test_status_names_a_service_that_is_down(context: SiteContext, running: Callable[..., Observation]) -> None:
    """The release itself is deployed; a workload that is neither a release's nor the cluster's is the users' own."""
    seen = running()
    found = workloads(
        [
            workload("Deployment", "hub", 1, 0),
            workload("Deployment", "coredns", 2, 2, namespace="kube-system"),
            workload("Deployment", "experiment", 1, 0, namespace="research"),
        ]
    )
    cluster = ClusterFacts(nodes=seen.cluster.nodes, workloads=found)
    status = site_status(context, seen.model_copy(update={"cluster": cluster}))
    assert [(o.layer, o.object, o.wanted, o.found) for o in status if not o.healthy] == [
        ("platform", "jupyterhub: deployment hub", "1 ready", "0 of 1 ready")
    ]
    assert "deployment coredns" in {o.object for o in status if o.layer == "cluster"}
    assert not any("experiment" in o.object for o in status)
