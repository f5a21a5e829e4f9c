"""When a playbook is skipped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.drift import hosts
from strata.drift.handlers import PendingHandlers, finish
from strata.drift_model import Drift
from strata.engine import playbook_state
from strata.layers import Layer
from strata.site.paths import SitePaths


@pytest.fixture
def context(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A site whose playbook `hosts` has succeeded; nothing has drifted."""
    context: Any = SimpleNamespace(paths=SitePaths("campus"), playbooks={"hosts": None})
    monkeypatch.setattr(playbook_state, "_inputs", lambda *_: "same")
    monkeypatch.setattr(playbook_state, "_secrets", lambda _: {})
    monkeypatch.setattr(hosts, "hosts_drift", lambda *_: [])
    playbook_state.remember(context, "hosts")
    return context


def unit(name: str, state: str) -> Drift:
    """A unit that should be active."""
    return Drift(layer=Layer.HOSTS, object=f"services-1: {name}", property="ActiveState", wanted="active", found=state)


def test_units_that_start_are_waited_for(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a start of the site; a failed one is a reason at once, one that never starts is one at the end."""
    looks = [[unit("a", "activating"), unit("b", "activating")], [unit("b", "activating")], []]
    monkeypatch.setattr(hosts, "hosts_drift", lambda *_: looks.pop(0))
    monkeypatch.setattr("strata.retry.time.sleep", lambda _: None)
    assert playbook_state.reason_to_run(context, "hosts") is None
    assert looks == []
    looks += [[unit("a", "activating"), unit("b", "failed")], []]
    assert playbook_state.reason_to_run(context, "hosts") == (
        "services-1: a: ActiveState is activating, desired active and 1 more"
    )
    monkeypatch.setattr(hosts, "STARTING_SECONDS", 0.0)
    monkeypatch.setattr(hosts, "hosts_drift", lambda *_: [unit("a", "activating")])
    assert playbook_state.reason_to_run(context, "hosts") == "services-1: a: ActiveState is activating, desired active"


def test_a_playbook_with_pending_handlers_runs(context: Any) -> None:
    paths = context.paths
    assert playbook_state.reason_to_run(context, "hosts") is None

    task = "kine : Install the unit"
    PendingHandlers(paths, "cluster").begin("services-1", task)
    assert playbook_state.reason_to_run(context, "hosts") is None
    PendingHandlers(paths, "hosts").begin("services-1", task)
    assert playbook_state.reason_to_run(context, "hosts") == f"services-1: handlers of '{task}' have not run"
    finish(paths, "hosts", ["services-1"])
    assert playbook_state.reason_to_run(context, "hosts") is None
