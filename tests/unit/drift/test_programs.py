"""Steps of a Pulumi preview as drift."""

from __future__ import annotations

from typing import Any

import pytest

from strata.drift.programs import step_drift
from strata.layers import Layer

FLAVOR = {
    "type": "openstack:compute/flavor:Flavor",
    "urn": "urn:pulumi:lab::strata-cloud::openstack:compute/flavor:Flavor::cpu.small",
}


def seen(step: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(d.object, d.property, d.wanted, d.found) for d in step_drift(Layer.CLOUD, {**FLAVOR, **step})]


def test_values_are_read_at_the_paths_of_the_difference() -> None:
    step = {
        "op": "update",
        "old": {"outputs": {"extraSpecs": {"hw:numa": "2", "pci.alias": "a"}, "vcpus": 3, "rules": [{"port": 1}]}},
        "new": {"inputs": {"extraSpecs": {"pci.alias": "b"}, "vcpus": 2, "rules": [{"port": 2}]}},
        "detailedDiff": {
            'extraSpecs["hw:numa"]': {},
            'extraSpecs["pci.alias"]': {},
            "vcpus": {},
            "rules[0].port": {},
        },
    }
    assert seen(step) == [
        ("flavor cpu.small", 'extraSpecs["hw:numa"]', "missing", "2"),
        ("flavor cpu.small", 'extraSpecs["pci.alias"]', "b", "a"),
        ("flavor cpu.small", "rules[0].port", "2", "1"),
        ("flavor cpu.small", "vcpus", "2", "3"),
    ]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("create", [("flavor cpu.small", "state", "present", "missing")]), ("same", []), ("read", [])],
)
def test_a_resource_that_is_gone_and_one_that_is_ok(operation: str, expected: list[tuple[str, str, str, str]]) -> None:
    assert seen({"op": operation}) == expected


def test_a_resource_that_the_site_no_longer_has() -> None:
    assert seen({"op": "delete"}) == [("flavor cpu.small", "state", "absent", "present")]


def test_a_release_that_was_upgraded_outside_strata_shows_values_and_not_the_marker() -> None:
    changed = {
        "op": "update",
        "old": {"outputs": {"checksum": "", "values": {"quota": "3"}}},
        "new": {"inputs": {"checksum": "abc", "values": {"quota": "16"}}},
    }
    both = {**changed, "detailedDiff": {"checksum": {}, "values.quota": {}}}
    assert [s[1:] for s in seen(both)] == [("values.quota", "16", "3")]
    alone = {**changed, "detailedDiff": {"checksum": {}}}
    assert [s[1:] for s in seen(alone)] == [("revision", "the one that up made", "modified outside Strata")]


def test_a_chart_that_changed_in_the_repository_is_shown() -> None:
    step = {
        "op": "update",
        "old": {"outputs": {"checksum": "old"}},
        "new": {"inputs": {"checksum": "new"}},
        "detailedDiff": {"checksum": {}},
    }
    assert [s[1:] for s in seen(step)] == [("checksum", "new", "old")]
