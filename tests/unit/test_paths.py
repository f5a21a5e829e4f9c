"""The state directory is its owner's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.engine.run_lock import site_lock
from strata.site.paths import SitePaths, make_private


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_rights_of_others_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    for name, rights in (("log", 0o644), ("a/script", 0o755), ("a/kept", 0o400)):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(rights)
    make_private(tmp_path)
    assert [mode(tmp_path / name) for name in ("a", "log", "a/script", "a/kept")] == [0o700, 0o600, 0o700, 0o400]


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    state = tmp_path / "state"
    state.mkdir()
    (state / "link").symlink_to(outside)
    (state / "broken").symlink_to(tmp_path / "none")
    os.mkfifo(state / "pipe")
    make_private(state)
    assert mode(outside) == 0o644


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    make_private(tmp_path / "none")


def test_a_run_leaves_its_files_private(state_directory: Path) -> None:
    paths = SitePaths("unit")

    def fail() -> None:
        with site_lock(paths, "up", None):
            (paths.logs / "run.log").write_text("x")
            (paths.logs / "run.log").chmod(0o644)
            raise RuntimeError("the run fails")

    with pytest.raises(RuntimeError):
        fail()
    assert mode(paths.logs / "run.log") == 0o600
