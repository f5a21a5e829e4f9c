"""podman's own races."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.access import podman as access
from strata.access.podman import PodmanError, build_image, image_names, list_containers

FAKE = """#!/bin/sh
echo run >>"$RUNS"
[ "$(wc -l <"$RUNS")" -gt "$FAILURES" ] && { echo '[{"Id": "b1"}]'; exit 0; }
echo "Error: $MESSAGE" >&2
exit 125
"""
PS = "determining buildah container for container da89c6814e83: container not known"
LIST = 'locating image with ID "03eadbc83552": image not known'
BUILD = "checking if cached image exists from a previous build: getting top layer info: layer not known"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a podman that fails `$FAILURES` times with `$MESSAGE` leaves a line for each run."""
    (tmp_path / "podman").write_text(FAKE)
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(access, "GONE_PAUSES", (0.0, 0.0))
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        (lambda: list_containers("--external"), PS, [{"Id": "b1"}]),
        (lambda: image_names("localhost/strata/pod/*"), LIST, ['[{"Id":', '"b1"}]']),
        (lambda: build_image("--quiet", "."), BUILD, None),
    ],
    ids=["ps", "image ls", "build"],
)
@pytest.mark.parametrize(("failures", "tried"), [(2, 3), (9, 3)])
def test_what_meets_a_removal_is_tried_again(
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[[], object],
    message: str,
    expected: object,
    failures: int,
    tried: int,
) -> None:
    """It stopped a first `up`, where one image was done while the next one's build listed containers, and a build while
    another process removed an image."""
    monkeypatch.setenv("MESSAGE", message)
    monkeypatch.setenv("FAILURES", str(failures))
    if failures < tried:
        assert command() == expected
    else:
        with pytest.raises(PodmanError, match=message):
            command()
    assert len(runs.read_text().splitlines()) == tried


def test_other_failures_are_reported_at_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESSAGE", "no space left")
    monkeypatch.setenv("FAILURES", "1")
    with pytest.raises(PodmanError, match="no space left"):
        list_containers("--external")
    assert len(runs.read_text().splitlines()) == 1
