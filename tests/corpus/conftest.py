"""What the tests of wrong input share."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata.site_file.loader import load_site
from strata.site_file.problems import Problem, SiteError
from strata_bench import strata_command

LONGEST_SECONDS = 30.0
"""Processor time after which an input of a few kilobytes counts as never answered; most take some milliseconds."""
STUCK_SECONDS = 90
"""Processor time after which a read that Python cannot interrupt ends with its process: C that never returns."""
MOST_MEBIBYTES = 256
"""Memory that the process may take beyond what it has, for an input of a few kilobytes."""

Answer = Callable[[Path], Sequence[Problem]]


class _TooLong(BaseException):
    """What `except Exception` does not hold up."""


@contextmanager
def bounded(shown: object) -> Iterator[None]:
    """The block takes neither too much processor time nor too much memory, or fails and shows the input.

    Raises:
        AssertionError: it was stopped.
    """

    def late(*_: object) -> None:
        raise _TooLong

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_MEBIBYTES * 2**20
    used = resource.getrusage(resource.RUSAGE_SELF)
    stuck = int(used.ru_utime + used.ru_stime) + STUCK_SECONDS
    before = signal.signal(signal.SIGPROF, late)
    limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU)}
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, limits[resource.RLIMIT_AS][1]))
        resource.setrlimit(resource.RLIMIT_CPU, (stuck, limits[resource.RLIMIT_CPU][1]))
        # repeatedly, because Python drops what is raised in __del__
        signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS, LONGEST_SECONDS / 10)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _TooLong:
        raise AssertionError(f"more than {LONGEST_SECONDS} s of processor time: {shown!r}") from None
    except MemoryError:
        raise AssertionError(f"more than {MOST_MEBIBYTES} MiB of memory: {shown!r}") from None
    finally:
        for kind, limit in limits.items():
            resource.setrlimit(kind, limit)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture
def answer() -> Answer:
    """`answer(file)` → its problems, () for a right one; what every answer must be is checked here."""

    def ask(file: Path) -> Sequence[Problem]:
        try:
            with bounded(file.read_bytes()):
                load_site(file)
            return ()
        except SiteError as error:
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
        done = strata_command.strata(*arguments, environment={"STRATA_STATE_DIR": str(state), "COLUMNS": "200"})
        assert not state.exists() or not list(state.iterdir()), "a wrong site must touch nothing"
        return done

    return call
