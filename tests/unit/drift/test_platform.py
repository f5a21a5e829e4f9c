"""Differences between a release's object and the one in the cluster."""

from __future__ import annotations

from typing import Any

from strata.drift.platform import differences

QUOTA: dict[str, Any] = {
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "n", "resourceVersion": "1", "managedFields": [{"a": 1}]},
    "spec": {"hard": {"pods": "100"}},
    "status": {"used": {"pods": "1"}},
}


def test_bookkeeping_and_status_are_no_drift() -> None:
    live = {**QUOTA, "metadata": {"name": "q", "namespace": "n", "resourceVersion": "7"}, "status": {}}
    assert list(differences(QUOTA, live)) == []


def test_a_changed_field_is_named_by_its_path() -> None:
    live = {**QUOTA, "spec": {"hard": {"pods": "99", "cpu": "1"}}}
    assert list(differences(QUOTA, live)) == [
        ("spec.hard.cpu", "missing", "1"),
        ("spec.hard.pods", "100", "99"),
    ]


def test_items_of_a_list_are_named_by_their_name() -> None:
    wanted = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
    live = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "z"}]}}
    assert list(differences(wanted, live)) == [("spec.containers[b].image", "y", "z")]


def test_a_secret_shows_that_it_differs_and_not_how() -> None:
    wanted = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "b25l"}}
    live = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "dHdv"}}
    assert list(differences(wanted, live)) == [("data.password", "(secret)", "(another)")]


def test_an_object_that_is_gone() -> None:
    assert list(differences(QUOTA, None)) == [("state", "present", "missing")]
