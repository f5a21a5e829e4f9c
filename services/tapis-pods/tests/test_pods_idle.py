"""Pods whose GPUs are idle: warned, called off, stopped, and never without measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strata_bench.waiting import eventually

from .conftest import Change, StartReconciler
from .kubelet import Kubelet
from .prometheus import Prometheus
from .users import SECONDS, User

CHOSEN = {"gpus": 1, "gpu_minimum_utilization": 10, "gpu_idle_seconds": 600, "mem_limit": 256}
WARNING = "its GPUs are idle: the pod is stopped at "
HOURS_AGO = "start_instance_ts = now() - interval '2 hours'"
NOW = "gpu_idle_stop_ts = now()"


@pytest.fixture
def eve(user: Callable[..., User], clean: None, kubelet: Kubelet, prometheus: Prometheus) -> User:
    """A member of the tenant with GPUs."""
    assert kubelet
    assert prometheus
    return user("eve", "teaching")


def message(who: User, pod_id: str) -> str:
    return str(who.pod(pod_id)["status_container"].get("message", ""))


def run_idle(who: User, pod_id: str, prometheus: Prometheus, change: Change, **resources: Any) -> None:
    """A pod that runs for two hours, with GPUs at 3 %; a reconciler must run."""
    prometheus.utilization[f"pods-{pod_id}"] = 3.0
    who.create(pod_id, resources={**CHOSEN, **resources})
    who.wait(pod_id, "AVAILABLE")
    change(pod_id, HOURS_AGO)


def warned(who: User, pod_id: str) -> None:
    eventually(lambda: WARNING in message(who, pod_id), SECONDS, f"{pod_id} is warned")


def queried(prometheus: Prometheus, times: int = 2) -> None:
    """Waits for whole passes from now on."""
    before = len(prometheus.queries)
    eventually(lambda: len(prometheus.queries) >= before + times, SECONDS, f"{times} more queries")


def test_an_idle_pod_is_warned_and_then_stopped(
    eve: User, start_reconciler: StartReconciler, prometheus: Prometheus, change: Change
) -> None:
    with start_reconciler():
        run_idle(eve, "gpu1", prometheus, change)
        warned(eve, "gpu1")
        assert eve.pod("gpu1")["status"] == "AVAILABLE"
        change("gpu1", NOW)
        stopped = eve.wait("gpu1", "STOPPED")
        reason = "GPUs used at most 3 % for 600 s, less than gpu_minimum_utilization 10 %"
        assert (stopped["status_requested"], stopped["status_container"]["message"]) == ("OFF", reason)
        actions = eve("GET", "/gpu1/logs").json()["result"]["action_logs"]
        assert any(line.endswith(f"stopped: {reason}") for line in actions), actions
        assert eve("POST", "/gpu1/start").status_code == 200
        eve.wait("gpu1", "AVAILABLE")
        change("gpu1", "start_instance_ts = now() - interval '5 minutes'")
        run_idle(eve, "gpu2", prometheus, change)
        warned(eve, "gpu2")
        assert message(eve, "gpu1") == "", "measurements of the run before do not count"


def test_use_calls_the_warning_off(
    eve: User, start_reconciler: StartReconciler, prometheus: Prometheus, change: Change
) -> None:
    with start_reconciler():
        run_idle(eve, "gpu1", prometheus, change)
        warned(eve, "gpu1")
        prometheus.utilization["pods-gpu1"] = 10.0
        eventually(lambda: message(eve, "gpu1") == "", SECONDS, "the warning is gone")
        prometheus.utilization["pods-gpu1"] = 9.9
        warned(eve, "gpu1")
        changed = eve("PUT", "/gpu1", {"resources": {**CHOSEN, "gpu_minimum_utilization": 0}})
        assert changed.status_code == 200, changed.text
        eventually(lambda: message(eve, "gpu1") == "", SECONDS, "its owner has switched it off")
        assert eve.pod("gpu1")["status"] == "AVAILABLE"


def test_without_measurements_no_pod_is_stopped(
    eve: User, start_reconciler: StartReconciler, prometheus: Prometheus, change: Change
) -> None:
    with start_reconciler():
        run_idle(eve, "gpu1", prometheus, change)
        warned(eve, "gpu1")
        for failing in ("error", "html"):
            prometheus.failing = failing
            queried(prometheus, 1)
            change("gpu1", NOW)
            queried(prometheus)
            pod = eve.pod("gpu1")
            assert (pod["status"], pod["status_requested"]) == ("AVAILABLE", "ON")
            assert WARNING in pod["status_container"]["message"]
        prometheus.utilization.clear()
        prometheus.failing = ""
        eventually(lambda: message(eve, "gpu1") == "", SECONDS, "no samples: the warning is gone")
        assert eve.pod("gpu1")["status_requested"] == "ON"


@pytest.mark.nightly
def test_pods_start_while_prometheus_hangs(
    eve: User, start_reconciler: StartReconciler, prometheus: Prometheus, change: Change
) -> None:
    with start_reconciler():
        run_idle(eve, "gpu1", prometheus, change)
        warned(eve, "gpu1")
        prometheus.failing = "hanging"
        queried(prometheus, 1)
        before = len(prometheus.queries)
        for number in range(6):
            eve.create(f"web{number}")
            eve.wait(f"web{number}", "AVAILABLE")
        # a loop that waits for an answer, 5 s each, begins at least one more query for each pod
        assert len(prometheus.queries) - before < 6


def test_only_pods_that_chose_it_are_judged_and_only_after_their_time(
    eve: User, start_reconciler: StartReconciler, prometheus: Prometheus, change: Change
) -> None:
    with start_reconciler():
        run_idle(eve, "free1", prometheus, change, gpu_minimum_utilization=0)
        run_idle(eve, "young1", prometheus, change)
        change("young1", "start_instance_ts = now() - interval '5 minutes', gpu_idle_stop_ts = NULL")
        prometheus.queries.clear()
        run_idle(eve, "idle1", prometheus, change)
        warned(eve, "idle1")
        assert (message(eve, "free1"), message(eve, "young1")) == ("", "")
        assert not [query for query in prometheus.queries if "free1" in query]


def test_a_killed_reconciler_keeps_the_time(
    eve: User, start_reconciler: StartReconciler, prometheus: Prometheus, change: Change
) -> None:
    with start_reconciler():
        run_idle(eve, "gpu1", prometheus, change)
        warned(eve, "gpu1")
        shown = message(eve, "gpu1")
    with start_reconciler():
        queried(prometheus)
        assert message(eve, "gpu1") == shown
    change("gpu1", NOW)
    with start_reconciler():
        assert "GPUs used at most 3 %" in eve.wait("gpu1", "STOPPED")["status_container"]["message"]
