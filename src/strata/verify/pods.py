"""Short-lived pods that verify something about a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata.image_reference import ImageReference
from strata.verify.waiting import settled

Kubectl = Callable[..., str]
"""`kubectl("get", "nodes", "-o", "json", input=None)` → its output."""

POD_SECONDS = 180.0
"""How long a pod may take from its creation to its end, in seconds, on a loaded machine."""
UNSCHEDULABLE_SECONDS = 90.0
"""In which the scheduler has reported that it finds no node for a pod."""


@dataclass(frozen=True)
class PodRequest:
    """A pod that runs one command.

    Args:
        name: of the pod.
        image: in the site's registry.
        command: what it runs.
        node: name of the node that it must run on; None lets the scheduler choose.
        resources: limits, `{"nvidia.com/gpu": "1"}`.
        tolerations: as in a pod's spec.
        claim: PersistentVolumeClaim that is mounted on /volume.
        identity: numeric user and group; None: the image's.
        beside: requests whose containers run in the same pod, each with its own command, claim and identity.
    """

    name: str
    image: ImageReference
    command: Sequence[str]
    node: str | None = None
    resources: Mapping[str, str] | None = None
    tolerations: Sequence[Mapping[str, str]] = ()
    claim: str | None = None
    identity: tuple[int, int] | None = None
    beside: Sequence[PodRequest] = ()

    def manifest(self) -> dict[str, Any]:
        """The pod as the API server takes it."""
        requests = (self, *self.beside)
        claims = {
            f"volume-{number}": request.claim for number, request in enumerate(requests) if request.claim is not None
        }
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [dict(t) for t in self.tolerations],
            "containers": [request.container(number) for number, request in enumerate(requests)],
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items()
            ],
        }
        if self.node is not None:
            # a selector, not nodeName: the scheduler must agree
            spec["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name}, "spec": spec}

    def container(self, number: int) -> dict[str, Any]:
        """The request's container, the pod's first or a later one."""
        spec: dict[str, Any] = {
            "name": f"check-{number}",
            "image": str(self.image),
            "command": list(self.command),
            "resources": {"limits": dict(self.resources or {})},
        }
        if self.claim is not None:
            spec["volumeMounts"] = [{"name": f"volume-{number}", "mountPath": "/volume"}]
        if self.identity is not None:
            user, group = self.identity
            # what the Pod Security level restricted asks for
            closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            closed |= {"runAsUser": user, "runAsGroup": group, "runAsNonRoot": user != 0}
            spec["securityContext"] = closed | {"seccompProfile": {"type": "RuntimeDefault"}}
        return spec


class PodFailed(AssertionError):
    """A pod did not do what it was created for; the message has what the cluster reports about it."""


def create(kubectl: Kubectl, namespace: str, request: PodRequest) -> None:
    """Makes the pod."""
    kubectl("--namespace", namespace, "create", "--filename", "-", input=json.dumps(request.manifest()))


def delete(kubectl: Kubectl, namespace: str, name: str) -> None:
    """Removes the pod without waiting for its end."""
    kubectl("--namespace", namespace, "delete", "pod", name, "--ignore-not-found", "--wait=false", "--now")


def status(kubectl: Kubectl, namespace: str, name: str) -> dict[str, Any]:
    """The pod as the cluster has it."""
    pod: dict[str, Any] = json.loads(kubectl("--namespace", namespace, "get", "pod", name, "--output", "json"))
    return pod


def start(kubectl: Kubectl, namespace: str, request: PodRequest) -> str:
    """Starts a pod that goes on running; the caller deletes it.

    Returns:
        its address.

    Raises:
        PodFailed: it ended, or does not run after POD_SECONDS.
    """
    create(kubectl, namespace, request)
    end = time.monotonic() + POD_SECONDS
    while (pod := status(kubectl, namespace, request.name))["status"].get("phase") != "Running":
        if time.monotonic() > end or pod["status"].get("phase") in ("Succeeded", "Failed"):
            raise PodFailed(f"pod {request.name} is {pod['status'].get('phase')} after {POD_SECONDS:.0f} s")
        time.sleep(0.3)
    return str(pod["status"]["podIP"])


def run(kubectl: Kubectl, namespace: str, request: PodRequest) -> tuple[str, str]:
    """Runs a pod to its end and removes it.

    Returns:
        what it wrote, and the node that it ran on.

    Raises:
        PodFailed: it did not end well within POD_SECONDS.
    """
    create(kubectl, namespace, request)
    try:
        end = time.monotonic() + POD_SECONDS
        while True:
            pod = status(kubectl, namespace, request.name)
            phase = pod["status"].get("phase")
            if phase == "Succeeded":
                logs = kubectl("--namespace", namespace, "logs", request.name, "--all-containers")
                return logs, pod["spec"]["nodeName"]
            if phase == "Failed" or time.monotonic() > end:
                events = kubectl("--namespace", namespace, "describe", "pod", request.name)
                logs = kubectl("--namespace", namespace, "logs", request.name, "--all-containers", check=False)
                raise PodFailed(f"pod {request.name} is {phase}: {logs[-500:]}\n{events[-1500:]}")
            time.sleep(0.3)
    finally:
        delete(kubectl, namespace, request.name)


def unschedulable_reason(kubectl: Kubectl, namespace: str, request: PodRequest) -> str:
    """Makes a pod that must not find a node, and removes it.

    Returns:
        why the scheduler finds none.

    Raises:
        PodFailed: it found one, or reported nothing within UNSCHEDULABLE_SECONDS.
    """
    create(kubectl, namespace, request)
    try:
        end = time.monotonic() + UNSCHEDULABLE_SECONDS
        while time.monotonic() < end:
            pod = status(kubectl, namespace, request.name)
            if node := pod["spec"].get("nodeName"):
                raise PodFailed(f"pod {request.name} was given to the node {node}")
            for condition in pod["status"].get("conditions", []):
                if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                    return str(condition["message"])
            time.sleep(0.2)
        raise PodFailed(f"the scheduler reported nothing about pod {request.name} within {UNSCHEDULABLE_SECONDS:.0f} s")
    finally:
        delete(kubectl, namespace, request.name)


def running_pods(
    kubectl: Kubectl, release: str, namespace: str, label: str = "app.kubernetes.io/instance"
) -> list[dict[str, Any]]:
    """The running pods of a release, without those that are being deleted; waits until there is one."""
    selector = f"{label}={release}"
    options = ("--namespace", namespace, "--selector", selector, "--field-selector", "status.phase=Running")

    def running() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(kubectl("get", "pods", *options, "--output", "json"))["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    pods = settled(running)
    assert pods, f"no pod of {release} runs"
    return pods
