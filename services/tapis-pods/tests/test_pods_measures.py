"""Users see what their pods use, by a substitute for Prometheus; PromQL is judged in test_pods_promql.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from strata_bench.waiting import eventually

from .conftest import Change, StartApi
from .prometheus import Prometheus
from .test_pods_api import assert_refused
from .users import SECONDS, User

NOTHING = {"newest": None, "mean": None, "maximum": None}


def began(ago: str) -> str:
    """A run began that long ago."""
    return f"start_instance_ts = now() - interval '{ago}'"


def test_a_pod_shows_what_it_uses(alice: User, prometheus: Prometheus, change: Change) -> None:
    alice.create("web1")
    assert alice("GET", "/web1/measures").json()["result"] == {
        "seconds": 0, "cpu": NOTHING, "memory": NOTHING, "gpus": [],
    }  # fmt: skip
    assert prometheus.queries == [], "it has not run yet"
    change("web1", began("10 minutes"))
    first, second = ({"UUID": f"GPU-{letter}", "modelName": "Tesla V100"} for letter in "ab")
    prometheus.measured = {
        "cpu": [({}, {"newest": "0.25", "mean": "0.5", "maximum": "2"})],
        "memory": [({}, {"mean": "1048576", "maximum": "NaN"})],
        "gpu_utilization": [(second, {"newest": "7"}), (first, {"newest": "80", "mean": "40", "maximum": "99"})],
        "gpu_memory": [(first, {"newest": "2"})],
    }
    result = alice("GET", "/web1/measures").json()["result"]
    assert 600 <= result.pop("seconds") < 600 + SECONDS
    assert result == {
        "cpu": {"newest": 0.25, "mean": 0.5, "maximum": 2},
        "memory": {**NOTHING, "mean": 2**20},
        "gpus": [
            {
                "uuid": "GPU-a",
                "model": "Tesla V100",
                "utilization": {"newest": 80, "mean": 40, "maximum": 99},
                "memory": {**NOTHING, "newest": 2 * 2**20},
            },
            {"uuid": "GPU-b", "model": "Tesla V100", "utilization": {**NOTHING, "newest": 7}, "memory": NOTHING},
        ],
    }
    (query,) = prometheus.queries
    assert set(re.findall(r"\{(.*?)\}", query)) == {'namespace="research", pod="pods-web1"'}
    change("web1", began("3 days"))
    assert alice("GET", "/web1/measures").json()["result"]["seconds"] == 3600


def test_others_see_no_measures(alice: User, user: Callable[..., User], prometheus: Prometheus, change: Change) -> None:
    alice.create("web1")
    change("web1", began("10 minutes"))
    bob = user("bob", "research")
    for other in (bob, user("eve", "teaching")):
        assert_refused(other("GET", "/web1/measures"), 404)
    for name in ("none", 'x"} or vector(1)', "a%22%7D"):
        assert alice("GET", f"/{name}/measures").status_code in (400, 404)
    assert prometheus.queries == [], "names reach Prometheus after they are known"
    alice("POST", "/web1/permissions", {"user": "bob", "level": "READ"})
    assert bob("GET", "/web1/measures").status_code == 200


@pytest.mark.parametrize("failing", ["error", "html"])
def test_a_prometheus_that_fails_is_reported(alice: User, prometheus: Prometheus, change: Change, failing: str) -> None:
    alice.create("web1")
    change("web1", began("10 minutes"))
    prometheus.failing = failing
    answer = alice("GET", "/web1/measures")
    assert_refused(answer, 503, "Prometheus does not respond; try again")
    assert answer.headers["Retry-After"] == "10"
    assert prometheus.url not in answer.text


def test_a_prometheus_that_hangs_stops_no_other_request(alice: User, prometheus: Prometheus, change: Change) -> None:
    alice.create("web1")
    change("web1", began("10 minutes"))
    prometheus.failing = "hanging"
    many = 12
    with ThreadPoolExecutor(many) as threads:
        waiting = [threads.submit(alice, "GET", "/web1/measures") for _ in range(many)]
        eventually(lambda: prometheus.queries, SECONDS, "Prometheus is asked", pause=0.05)
        # more of them wait than there are connections to the database
        assert [alice.pod("web1")["pod_id"] for _ in range(3)] == ["web1"] * 3
        for request in waiting:
            assert_refused(request.result(), 503, "does not respond")


def test_a_site_without_prometheus_reports_it(alice: User, start_api: StartApi, change: Change) -> None:
    alice.create("web1")
    change("web1", began("10 minutes"))
    with start_api(PODS_PROMETHEUS_URL="") as service:
        there = replace(alice, url=f"{service.url}/v3/pods")
        assert_refused(there("GET", "/web1/measures"), 503, "the site has no Prometheus")
        assert there.pod("web1")["pod_id"] == "web1"
