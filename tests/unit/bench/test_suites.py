"""A run in two parts: one summary of both, a failed test of the lab runs once more, no other does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pathlib, pytest
here = pathlib.Path(__file__).parent

@pytest.fixture(scope="module")
def place():
    return here

def fails_first(name):
    file = here / name
    runs = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (runs + 1))
    assert runs, f"{name}: the first run"

@pytest.mark.lab
def test_lab_passes(place): pass
@pytest.mark.lab
def test_lab_is_flaky(place): fails_first("lab")
@pytest.mark.lab
def test_lab_fails(place): assert not place, "broken"
def test_unit_passes(): pass
def test_unit_fails_first(): fails_first("unit")
def test_unit_skips(): pytest.skip("no reason to run")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = lab: needs the running site\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "strata_bench.suites", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def both(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    first = run(folder, "-n2", "-m", "not lab", "--reports-to", "reports", *arguments)
    return first, run(folder, "-m", "lab", "--reports-from", "reports", "--flaky-to", "flaky", *arguments)


def test_the_second_summary_has_both_parts_and_names_the_flaky_test(folder: Path) -> None:
    first, second = both(folder)
    assert (first.returncode, second.returncode) == (1, 1)
    last = second.stdout.splitlines()[-1]
    for count in ("2 failed", "2 passed", "1 skipped", "1 flaky"):
        assert count in last, second.stdout
    assert "deselected" not in last
    assert "FAILED test_some.py::test_unit_fails_first" in second.stdout
    assert "FAILED test_some.py::test_lab_fails" in second.stdout
    assert "FLAKY test_some.py::test_lab_is_flaky" in second.stdout
    assert (folder / "lab").read_text() == "xx"
    assert (folder / "unit").read_text() == "x"
    outputs = (folder / "flaky").read_text()
    assert "lab: the first run" in outputs
    assert "second run" in outputs


def test_the_parts_may_change_places(folder: Path) -> None:
    first = run(folder, "-m", "lab", "--reports-to", "reports", "--flaky-to", "flaky")
    second = run(folder, "-n2", "-m", "not lab", "--reports-from", "reports")
    assert (first.returncode, second.returncode) == (1, 1)
    last = second.stdout.splitlines()[-1]
    for count in ("2 failed", "2 passed", "1 skipped", "1 flaky"):
        assert count in last, second.stdout
    assert "FLAKY test_some.py::test_lab_is_flaky - failed, then passed; both outputs: flaky" in second.stdout


def test_a_run_whose_only_failure_is_flaky_passes(folder: Path) -> None:
    (folder / "unit").write_text("x")
    first, second = both(folder, "-k", "not lab_fails")
    assert (first.returncode, second.returncode) == (0, 0), second.stdout
    assert "1 flaky" in second.stdout.splitlines()[-1]


def test_a_broken_lab_is_not_tried_again(folder: Path) -> None:
    (folder / "test_broken.py").write_text(
        "import pytest\n@pytest.mark.lab\n@pytest.mark.parametrize('number', range(6))\n"
        "def test_broken(number): assert not 1\n"
    )
    done = run(folder, "-m", "lab", "--flaky-to", "flaky", "test_broken.py")
    assert done.returncode == 1
    assert "6 tests of the lab failed: none is run again" in done.stdout
    assert "6 failed" in done.stdout.splitlines()[-1]
