"""Differences between a release's object and the one in the cluster."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from strata.drift import platform
from strata.drift.platform import differences, release_drift
from strata.observe.workloads import SCALED_BY

QUOTA: dict[str, Any] = {
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "n", "resourceVersion": "1", "managedFields": [{"a": 1}]},
    "spec": {"hard": {"pods": "100"}},
    "status": {"used": {"pods": "1"}},
}


def test_bookkeeping_and_status_are_not_drift() -> None:
    live = {**QUOTA, "metadata": {"name": "q", "namespace": "n", "resourceVersion": "7"}, "status": {}}
    assert list(differences(QUOTA, live)) == []


def test_a_changed_field_is_named_by_its_path() -> None:
    live = {**QUOTA, "spec": {"hard": {"pods": "99", "cpu": "1"}}}
    assert list(differences(QUOTA, live)) == [
        ("spec.hard.cpu", "missing", "1"),
        ("spec.hard.pods", "100", "99"),
    ]


def test_items_of_a_list_are_named_by_their_name() -> None:
    desired = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
    live = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "z"}]}}
    assert list(differences(desired, live)) == [("spec.containers[b].image", "y", "z")]


def test_a_secret_shows_that_it_differs_and_not_how() -> None:
    desired = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "b25l"}}
    live = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "dHdv"}}
    assert list(differences(desired, live)) == [("data.password", "(secret)", "(another)")]


def test_an_object_that_is_gone() -> None:
    assert list(differences(QUOTA, None)) == [("state", "present", "missing")]


@pytest.mark.parametrize(("annotations", "drift"), [({}, [("spec.replicas", "0", "1")]), ({SCALED_BY: "a"}, [])])
def test_replicas_that_a_service_sets_are_not_drift(
    monkeypatch: pytest.MonkeyPatch, annotations: dict[str, str], drift: list[tuple[str, str, str]]
) -> None:
    def deployment(replicas: int) -> dict[str, Any]:
        metadata = {"name": "model", "namespace": "n", "annotations": annotations}
        return {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}

    def kubectl(_: object, verb: str, *__: str, text: str, seconds: float) -> dict[str, Any]:
        assert seconds > 0
        # a dry run answers with what it was given
        return deployment(1) if verb == "get" else dict(json.loads(text))

    monkeypatch.setattr(platform, "kubectl_json", kubectl)
    release = Mock(namespace="n", objects=lambda: [deployment(0)])
    release.name = "models"
    assert [
        (difference.property, difference.wanted, difference.found) for difference in release_drift(Mock(), [release])
    ] == drift
