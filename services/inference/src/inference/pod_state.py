"""What a pod of a model reports about its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightkube.models.core_v1 import ContainerStatus
from lightkube.resources.core_v1 import Pod

LONGEST = 300
"""Characters of a reason."""
BROKEN = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons of a container that waits for something that time alone seldom brings."""

Phase = Literal["ready", "starting", "failed"]


@dataclass(frozen=True)
class PodState:
    """How far a start is.

    Args:
        phase: of the start.
        reason: why it cannot start, for users; empty otherwise.
    """

    phase: Phase
    reason: str = ""


def state_of(pods: list[Pod]) -> PodState:
    """Of the pods of a Deployment: ready if one is, failed if none is and one has a reason.

    Pods that end do not count: their server may still answer, and will be gone in the middle of it.
    """
    alive = [pod for pod in pods if pod.metadata is not None and pod.metadata.deletionTimestamp is None]
    states = [_state(pod) for pod in alive]
    for phase in ("ready", "failed"):
        for state in states:
            if state.phase == phase:
                return state
    return PodState("starting")


def _state(pod: Pod) -> PodState:
    status = pod.status
    if status is None:
        return PodState("starting")
    for condition in status.conditions or ():
        if condition.type == "Ready" and condition.status == "True":
            return PodState("ready")
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            return PodState("failed", _short(f"no node has room for it now: {condition.message or 'Unschedulable'}"))
    if status.phase == "Failed":
        return PodState("failed", _short(status.message or status.reason or "its pod failed"))
    for container in status.containerStatuses or ():
        if reason := _broken(container):
            return PodState("failed", _short(reason))
    return PodState("starting")


def _broken(container: ContainerStatus) -> str:
    """Why a container does not run; empty where it does or may."""
    state, last = container.state, container.lastState
    ended = (state and state.terminated) or (last and last.terminated)
    if state is not None and state.waiting is not None:
        waiting = state.waiting
        if waiting.reason not in BROKEN:
            return ""
        if waiting.reason != "CrashLoopBackOff" or not ended:
            return f"{waiting.reason}: {waiting.message or 'see the events of its pod'}"
    elif state is None or state.terminated is None:
        return ""
    assert ended
    if ended.reason == "OOMKilled":
        return "it needs more memory than site.yaml gives it; raise `memory` of the model"
    # the last lines of its log, by terminationMessagePolicy
    lines = [line for line in (ended.message or "").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"its model server ended with status {ended.exitCode}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
