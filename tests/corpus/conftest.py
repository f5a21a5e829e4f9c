"""What the tests of wrong input share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.models import Problem, SiteError, load_site

LONGEST_SECONDS = 1.0
"""Processor time in which a wrong file is answered; other work on the machine does not count."""

Answer = Callable[[Path], Sequence[Problem]]


@pytest.fixture
def answer() -> Answer:
    """`answer(file)` → its problems, () for a right one; what every answer must be is checked here."""

    def ask(file: Path) -> Sequence[Problem]:
        begin = time.process_time()
        try:
            load_site(file)
            return ()
        except SiteError as error:
            assert time.process_time() - begin < LONGEST_SECONDS
            check_problems(file, error)
            return error.problems

    return ask


def check_problems(file: Path, error: SiteError) -> None:
    """File, line, reason and fix are there; the text is printable and short enough to read."""
    assert error.problems
    content = file.read_bytes()
    lines = content.count(b"\n") + content.count(b"\r") + 1
    for problem in error.problems:
        assert problem.file == file
        assert problem.why.strip()
        assert problem.fix.strip()
        assert problem.line is None or 1 <= problem.line <= lines + 1
        assert len(str(problem)) < 2000, str(problem)[:200]
        said = problem.key + (problem.value or "") + problem.why + problem.fix
        assert all(character.isprintable() for character in said), repr(said)
        said.encode()  # what cannot be encoded cannot be printed
    places = [(problem.line or 0, problem.column or 0) for problem in error.problems]
    assert places == sorted(places)


@pytest.fixture
def strata(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`strata("validate", file)` as an operator calls it; a state directory of its own must stay empty."""

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        state = tmp_path / "state"
        done = subprocess.run(
            [str(Path(sys.executable).parent / "strata"), *map(str, arguments)],
            env={**os.environ, "STRATA_STATE_DIR": str(state), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert not state.exists() or not list(state.iterdir()), "a wrong site must touch nothing"
        return done

    return call
