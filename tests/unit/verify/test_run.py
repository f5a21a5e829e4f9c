"""A run of checks, in several processes and in one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.verify import run

CHECKS = '''
import os
import pytest

PROCESSES = os.environ["TEST_PROCESSES"]

def note(name):
    with open(os.path.join(PROCESSES, name), "w") as file:
        file.write(str(os.getpid()))

@pytest.mark.parametrize("number", range(3))
def test_stays_together(number):
    """Checks of a file share a process."""
    note(f"{NAME}-{number}")

def test_fails():
    """Nothing is wrong.

    Not part of the claim."""
    assert 1 == 2, "one is not two"

def test_without_a_sentence():
    pytest.skip("not here")
'''


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A site with two files of checks."""
    checks = tmp_path / "checks"
    checks.mkdir()
    for name in ("one", "two"):
        (checks / f"test_{name}.py").write_text(f"NAME = {name!r}\n{CHECKS}")
    (tmp_path / "processes").mkdir()
    monkeypatch.setenv("TEST_PROCESSES", str(tmp_path / "processes"))
    monkeypatch.setattr(run, "check_paths", lambda _: [checks])
    paths = SimpleNamespace(root=tmp_path, logs=tmp_path, create=lambda: None)
    return SimpleNamespace(site=SimpleNamespace(name="some"), site_file="some", paths=paths)


@pytest.mark.parametrize(("keyword", "processes"), [(None, 2), ("together or fails or sentence", 1)])
def test_results_come_from_every_process(
    context: SimpleNamespace, tmp_path: Path, keyword: str | None, processes: int
) -> None:
    verification = run.run_checks(context, quiet=True, keyword=keyword)  # type: ignore[arg-type]
    assert not verification.passed
    results = {(result.area, result.claim, result.state) for result in verification.results}
    expected = {("Nothing is wrong.", "failed"), ("without a sentence", "skipped")}
    expected |= {(f"Checks of a file share a process. [{number}]", "passed") for number in range(3)}
    assert results == {(area, *result) for area in ("one", "two") for result in expected}
    assert len(verification.results) == len(results)
    reasons = {result.state: result.reason for result in verification.results}
    assert "one is not two" in reasons["failed"]
    assert reasons["skipped"] == "not here"
    used = {file.name: file.read_text() for file in (tmp_path / "processes").iterdir()}
    assert len(used) == 6
    assert len({pid for name, pid in used.items() if name.startswith("one")}) == 1
    assert len(set(used.values())) == processes
