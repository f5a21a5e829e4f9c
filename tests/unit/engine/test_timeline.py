"""Where the time of a step went."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.engine import ansible
from strata.engine.ansible import PlaybookResult
from strata.progress import Silent
from strata.stacks.events import Events
from strata.timeline import Timeline, file_of, load

URN = "urn:pulumi:lab::strata-cloud::openstack:compute/instance:Instance::worker-1"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """`clock[0]` is the time."""
    now = [100.0]
    monkeypatch.setattr("strata.timeline.time.monotonic", lambda: now[0])
    return now


def test_tasks_follow_one_another(clock: list[float], tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.start("starting Ansible")
    events = [{"_event": "v2_playbook_on_task_start", "task": {"name": name, "id": name}} for name in ("one", "two")]
    lines = ansible._follow((json.dumps(e) for e in events), PlaybookResult(), Silent(), timeline)
    clock[0] += 1
    for _ in lines:
        clock[0] += 2
    timeline.save(tmp_path, "hosts")
    loaded = load(tmp_path, "hosts")
    assert loaded is not None
    assert [(p.name, p.started, p.seconds) for p in loaded.parts] == [
        ("starting Ansible", 0.0, 1.0),
        ("one", 1.0, 2.0),
        ("two", 3.0, 2.0),
    ]
    assert loaded.seconds == 5.0
    assert file_of(tmp_path, "hosts").stat().st_mode & 0o077 == 0


def test_resources_are_worked_on_in_parallel(clock: list[float]) -> None:
    events = Events(Silent())
    step = {"op": "create", "type": "openstack:compute/instance:Instance", "urn": URN}
    other = step | {"urn": URN.replace("worker-1", "worker-2")}
    for kind, metadata in (
        ("resourcePreEvent", step),
        ("resourcePreEvent", other),
        ("resOutputsEvent", step),
        ("resOutputsEvent", other),
    ):
        events.read(json.dumps({kind: {"metadata": metadata}}))
        clock[0] += 1
    parts = [(p.name, p.started, p.seconds) for p in events.timeline._parts]
    assert parts == [("instance worker-1", 0.0, 2.0), ("instance worker-2", 1.0, 2.0)]
