"""A run in two parts: one summary of both, and a failed test runs once more, alone."""

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
@pytest.mark.xdist_group("of some")
@pytest.mark.parametrize("address", ["a@b"])
def test_unit_is_flaky(place, address): fails_first("unit")
def test_unit_fails(): assert not 1, "broken too"
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
    workers = ("-n2", "--dist=loadgroup", "-m", "not lab")
    first = run(folder, *workers, "--reports-to", "reports", "--flaky-to", "flaky-rest", *arguments)
    return first, run(folder, "-m", "lab", "--reports-from", "reports", "--flaky-to", "flaky-lab", *arguments)


def test_the_second_summary_has_both_parts_and_names_flaky_tests(folder: Path) -> None:
    first, second = both(folder)
    assert (first.returncode, second.returncode) == (1, 1)
    last = second.stdout.splitlines()[-1]
    for count in ("2 failed", "2 passed", "1 skipped", "2 flaky"):
        assert count in last, second.stdout
    assert "deselected" not in last
    assert "FAILED test_some.py::test_unit_fails " in second.stdout
    assert "FAILED test_some.py::test_lab_fails" in second.stdout
    assert "FLAKY test_some.py::test_lab_is_flaky" in second.stdout
    assert "FLAKY test_some.py::test_unit_is_flaky[a@b]" in second.stdout
    for part, name in (("lab", "lab"), ("rest", "unit")):
        assert (folder / name).read_text() == "xx"
        outputs = (folder / f"flaky-{part}").read_text()
        assert f"{name}: the first run" in outputs
        assert "second run" in outputs


def test_the_parts_may_change_places(folder: Path) -> None:
    first = run(folder, "-m", "lab", "--reports-to", "reports", "--flaky-to", "flaky")
    second = run(folder, "-n2", "-m", "not lab", "--reports-from", "reports", "--flaky-to", "flaky-rest")
    assert (first.returncode, second.returncode) == (1, 1)
    last = second.stdout.splitlines()[-1]
    for count in ("2 failed", "2 passed", "1 skipped", "2 flaky"):
        assert count in last, second.stdout
    assert "FLAKY test_some.py::test_lab_is_flaky - failed, then passed; both outputs: flaky" in second.stdout


def test_a_run_whose_only_failure_is_flaky_passes(folder: Path) -> None:
    first, second = both(folder, "-k", "not lab_fails and not unit_fails")
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout
    assert "2 flaky" in second.stdout.splitlines()[-1]


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_many_failures_are_not_tried_again(folder: Path, workers: tuple[str, ...]) -> None:
    (folder / "test_broken.py").write_text(
        "import pytest\n@pytest.mark.parametrize('number', range(6))\ndef test_broken(number): assert not 1\n"
    )
    done = run(folder, *workers, "--flaky-to", "flaky", "test_broken.py")
    assert done.returncode == 1
    assert "6 tests failed: none is run again" in done.stdout
    assert "6 failed" in done.stdout.splitlines()[-1]
