"""Which pods hold the cluster up, and why."""

from __future__ import annotations

from typing import Any

from strata.engine.pod_readiness import not_ready


def pod(name: str, ready: str, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "reason": "ContainersNotReady"}]
    return {"metadata": {"name": name}, "status": {"phase": "Running", "conditions": conditions, **status}}


def test_ready_and_finished_pods_are_not_waited_for() -> None:
    assert not_ready([pod("a", "True"), pod("b", "False", phase="Succeeded")]) == {}


def test_the_container_shows_more_than_the_condition() -> None:
    waiting = [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    reasons = not_ready([pod("proxy", "False", containerStatuses=waiting), pod("dns", "False")])
    assert reasons == {"proxy": "CrashLoopBackOff", "dns": "ContainersNotReady"}


def test_a_pod_without_conditions_is_named_by_its_phase() -> None:
    assert not_ready([{"metadata": {"name": "x"}, "status": {"phase": "Pending"}}]) == {"x": "Pending"}
