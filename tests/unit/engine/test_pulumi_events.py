"""Events of the engine become progress, counts and readable failures."""

from __future__ import annotations

import json

from strata.stacks.events import Events, Failure, label

URN = "urn:pulumi:lab::strata-cloud::strata:cloud:Instance$openstack:compute/instance:Instance::gpu-worker-1"
TYPE = "openstack:compute/instance:Instance"


class Recorded:
    """Progress that keeps what it was reported."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def update(self, text: str) -> None:
        self.texts.append(text)


def events(*lines: object) -> tuple[Events, Recorded]:
    progress = Recorded()
    reader = Events(progress)
    for line in lines:
        reader.read(line if isinstance(line, str) else json.dumps(line))
    return reader, progress


def step(kind: str, operation: str, urn: str = URN, type_token: str = TYPE, **more: object) -> dict[str, object]:
    return {kind: {"metadata": {"op": operation, "urn": urn, "type": type_token}, **more}}


def test_progress_names_what_is_worked_on() -> None:
    _, progress = events(step("resourcePreEvent", "create"))
    assert progress.texts == ["creating instance gpu-worker-1"]


def test_counts_leave_out_components_and_providers() -> None:
    result, _ = events(
        step("resOutputsEvent", "create"),
        step("resOutputsEvent", "create", "urn:pulumi:lab::p::strata:cloud:Instance::i", "strata:cloud:Instance"),
        step("resOutputsEvent", "create", "urn:pulumi:lab::p::pulumi:providers:openstack::a", "pulumi:providers:o"),
        step("resOutputsEvent", "same", URN + "2"),
        step("resOutputsEvent", "delete", URN + "3"),
        step("resOutputsEvent", "update", URN + "4"),
        step("resOutputsEvent", "refresh", URN + "5"),
    )
    assert (result.created, result.updated, result.deleted, result.same) == (1, 1, 1, 1)


def test_a_preview_counts_what_it_plans() -> None:
    result, _ = events(step("resourcePreEvent", "create", planning=True), step("resOutputsEvent", "create"))
    assert result.created == 1


def test_failure_in_the_providers_words_without_colours() -> None:
    diagnostic = {"urn": URN, "message": "<{%reset%}>quota exceeded<{%reset%}>\n", "severity": "error"}
    result, _ = events({"diagnosticEvent": diagnostic}, {"diagnosticEvent": diagnostic | {"severity": "info"}})
    assert [str(f) for f in result.failures] == ["instance gpu-worker-1: quota exceeded"]


def test_traceback_of_a_program_is_its_last_line() -> None:
    text = (
        'Program failed with an unhandled exception:\nTraceback (most recent call last):\n  File "x.py", line 1\n'
        "    task\nException: the cloud cannot be reached:\n\t* connection refused"
    )
    result, _ = events({"diagnosticEvent": {"message": text, "severity": "error"}})
    assert [str(f) for f in result.failures] == ["Exception: the cloud cannot be reached:\n\t* connection refused"]


def test_lines_that_are_not_events_are_kept() -> None:
    result, _ = events("error: no language plugin\n")
    assert result.other == ["error: no language plugin"]


def test_words_for_types() -> None:
    assert label("openstack:compute/quotaSetV2:QuotaSetV2") == "quota set"
    assert label("kubernetes:helm.sh/v3:Release") == "release"
    assert str(Failure("", "all of it")) == "all of it"
