"""When a playbook is skipped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.drift.handlers import PendingHandlers, finish
from strata.engine import playbook_state
from strata.site.paths import SitePaths


def test_a_playbook_with_pending_handlers_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    paths = SitePaths("campus")
    context: Any = SimpleNamespace(paths=paths, playbooks={"hosts": None})
    monkeypatch.setattr(playbook_state, "_inputs", lambda *_: "same")
    monkeypatch.setattr(playbook_state, "_secrets", lambda _: {})
    monkeypatch.setattr(playbook_state, "hosts_drift", lambda *_: [])
    playbook_state.remember(context, "hosts")
    assert playbook_state.reason_to_run(context, "hosts") is None

    task = "kine : Install the unit"
    PendingHandlers(paths, "cluster").begin("services-1", task)
    assert playbook_state.reason_to_run(context, "hosts") is None
    PendingHandlers(paths, "hosts").begin("services-1", task)
    assert playbook_state.reason_to_run(context, "hosts") == f"services-1: handlers of '{task}' have not run"
    finish(paths, "hosts", ["services-1"])
    assert playbook_state.reason_to_run(context, "hosts") is None
