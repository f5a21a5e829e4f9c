"""What a tired operator types: sites/NAME.yaml, and what must be reported about it in sites/NAME.json.

Each problem names line, key, a part of the reason and of the fix. All problems of a file are listed, no more, no
less: an error must not make others up. `null` is for a file whose problems are too many to list. Names that begin
with `valid` are files that look wrong and are right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site_file.problems import Problem

from .conftest import Answer

SITES = Path(__file__).parent / "sites"
CASES = sorted(file.stem for file in SITES.glob("*.yaml"))
SAMPLE = (
    "bracket-not-closed",
    "cards-in-words",
    "deep-dashes",
    "indent-with-tab",
    "key-right-to-left",
    "many-mistakes",
    "utf-16",
    "value-with-cyrillic-letter",
)
"""Cases that the command line is asked too."""


def test_there_are_many() -> None:
    assert len([case for case in CASES if not case.startswith("valid")]) >= 150
    assert sorted(file.stem for file in SITES.glob("*.json")) == CASES


@pytest.mark.parametrize("case", CASES)
def test_answer(case: str, answer: Answer) -> None:
    expected = json.loads((SITES / f"{case}.json").read_text())
    problems = answer(SITES / f"{case}.yaml")
    if expected is None:
        assert problems
        return
    compare(problems, expected)
    assert bool(problems) != case.startswith("valid")


def compare(problems: Sequence[Problem], expected: list[dict[str, str | int | None]]) -> None:
    """All problems, in any order within a line."""
    places = sorted(((p.line or 0, p.key) for p in problems), key=str)
    assert places == sorted(((e["line"] or 0, e["key"]) for e in expected), key=str), "\n".join(map(str, problems))
    by_place = {(p.line, p.key): p for p in problems}
    for entry in expected:
        line, key = entry["line"], entry["key"]
        assert line is None or isinstance(line, int)
        problem = by_place[line, str(key)]
        assert str(entry["why"]) in problem.why
        assert str(entry["fix"]) in problem.fix


@pytest.mark.parametrize("case", SAMPLE)
def test_command_line(case: str, strata: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Status 2, nothing on standard output, every problem on standard error."""
    file = SITES / f"{case}.yaml"
    expected = json.loads((SITES / f"{case}.json").read_text())
    done = strata("validate", file)
    assert done.returncode == 2
    assert done.stdout == ""
    for entry in expected:
        place = str(file) if entry["line"] is None else f"{file}:{entry['line']}:"
        assert place in done.stderr
        assert entry["why"] in done.stderr
        assert entry["fix"] in done.stderr


def test_installed_program(strata: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """As a process of its own, which the other tests save, it ends and prints as they see it."""
    line = ("validate", str(SITES / f"{SAMPLE[0]}.yaml"))
    environment = {**os.environ, "STRATA_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "200"}
    program = Path(sys.executable).with_name("strata")
    done = subprocess.run([program, *line], env=environment, capture_output=True, text=True, check=False)
    expected = strata(*line)
    assert (done.returncode, done.stdout, done.stderr) == (expected.returncode, expected.stdout, expected.stderr)


@pytest.mark.parametrize("case", SAMPLE[:4])
def test_command_line_for_programs(case: str, strata: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The same as JSON: nothing but it on standard output, nothing on standard error."""
    file = SITES / f"{case}.yaml"
    expected = json.loads((SITES / f"{case}.json").read_text())
    done = strata("validate", file, "--json")
    assert done.returncode == 2
    assert done.stderr == ""
    output = json.loads(done.stdout)
    assert output["valid"] is False
    assert [(p["line"], p["key"]) for p in output["problems"]] == [(e["line"], e["key"]) for e in expected]
    assert all(p["file"] == str(file) and p["why"] and p["fix"] for p in output["problems"])


@pytest.mark.parametrize("command", ["plan", "up", "status", "env", "verify", "explain", "down"])
def test_every_command_refuses(command: str, strata: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A wrong site file stops each command before it touches anything; a program that reads its output gets none."""
    extra = ["name"] if command == "explain" else []
    options = [] if command in ("up", "down") else ["--json"]
    done = strata(command, SITES / "number-octal.yaml", *extra, *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "cloud.flavors[0].vcpus" in done.stderr
    assert "did you mean 10?" in done.stderr
