"""podman's own races."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.access import podman as access
from strata.access.podman import PodmanError, list_containers

FAKE = """#!/bin/sh
echo run >>"$RUNS"
[ "$(wc -l <"$RUNS")" -gt "$FAILURES" ] && { echo '[{"Id": "b1"}]'; exit 0; }
echo "Error: $MESSAGE" >&2
exit 125
"""
RACE = "determining buildah container for container da89c6814e83: container not known"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a podman that fails `$FAILURES` times with `$MESSAGE` leaves a line for each run."""
    (tmp_path / "podman").write_text(FAKE)
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(access, "LIST_PAUSES", (0.0, 0.0))
    return tmp_path / "runs"


@pytest.mark.parametrize(("message", "failures", "tried"), [(RACE, 2, 3), (RACE, 9, 3), ("no space left", 1, 1)])
def test_a_list_that_meets_the_end_of_a_build_is_read_again(
    runs: Path, monkeypatch: pytest.MonkeyPatch, message: str, failures: int, tried: int
) -> None:
    """It stopped a first `up`: one image was done while the next one's build listed containers."""
    monkeypatch.setenv("MESSAGE", message)
    monkeypatch.setenv("FAILURES", str(failures))
    if failures < tried:
        assert list_containers("--external") == [{"Id": "b1"}]
    else:
        with pytest.raises(PodmanError, match=message):
            list_containers("--external")
    assert len(runs.read_text().splitlines()) == tried
