"""Tapis' status of a pod, from what Kubernetes reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import ContainerState, Pod

REQUESTED, SETUP, CREATING, AVAILABLE = "REQUESTED", "SPAWNER SETUP", "CREATING", "AVAILABLE"
DELETING, STOPPED, ERROR, COMPLETE = "DELETING", "STOPPED", "ERROR", "COMPLETE"
STATUSES = (REQUESTED, SETUP, CREATING, AVAILABLE, DELETING, STOPPED, ERROR, COMPLETE)
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
LONGEST_MESSAGE = 1000


@dataclass(frozen=True)
class Observed:
    """A Pod in Tapis' words.

    Args:
        status: of Tapis.
        container: its `status_container`.
    """

    status: str
    container: dict[str, Any]


def container(phase: str, message: str = "", start_time: str = "") -> dict[str, Any]:
    """`status_container` of Tapis."""
    clean = message.replace("\0", "\N{REPLACEMENT CHARACTER}")[:LONGEST_MESSAGE]
    return {"phase": phase, "start_time": start_time, "message": clean}


def observe(pod: Pod) -> Observed:
    """The status of a Pod that is not being deleted."""
    current = pod.status
    phase = (current and current.phase) or "Pending"
    start = current.startTime.isoformat() if current and current.startTime else ""
    states = [
        container.state for container in (current and current.containerStatuses) or () if container.state is not None
    ]
    status, message = _judge(pod, phase, states[0] if states else None)
    return Observed(status, container(phase, message, start))


def ended(pod: Pod) -> bool:
    """Whether a Pod is being deleted and nothing of it runs any more."""
    deleted = pod.metadata and pod.metadata.deletionTimestamp
    states = [container.state for container in (pod.status and pod.status.containerStatuses) or ()]
    return bool(deleted and states) and all(state and state.terminated for state in states)


def _judge(pod: Pod, phase: str, state: ContainerState | None) -> tuple[str, str]:
    if phase == "Succeeded":
        return COMPLETE, "the container ended with status 0"
    if phase == "Failed":
        reason = pod.status and f"{pod.status.reason or ''} {pod.status.message or ''}".strip()
        return ERROR, reason or _ended(state) or "the pod failed"
    if state is None:
        return CREATING, _unscheduled(pod)
    if state.running is not None:
        return AVAILABLE, ""
    if state.terminated is not None:
        return ERROR, _ended(state)
    reason = (state.waiting and state.waiting.reason) or "ContainerCreating"
    if reason in STARTING:
        return CREATING, ""
    return ERROR, f"{reason} {(state.waiting and state.waiting.message) or ''}".strip()


def _ended(state: ContainerState | None) -> str:
    if state is None or state.terminated is None:
        return ""
    ended = state.terminated
    return f"{ended.reason or 'Error'}: the container ended with status {ended.exitCode} {ended.message or ''}".strip()


def _unscheduled(pod: Pod) -> str:
    for condition in (pod.status and pod.status.conditions) or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"no node has room: {condition.message or condition.reason or ''}"
    return ""
