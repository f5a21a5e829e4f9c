"""A run: batches, results that survive a kill, the comparison with what is expected."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from strata.errors import UserError
from strata.progress import Silent
from strata_bench.waiting import eventually
from strata_conformance.expected import ExpectedFailure
from strata_conformance.results import (
    FAILED,
    PASSED,
    SKIPPED,
    Result,
    ResultFile,
    judge,
    read_report,
    setup_failure,
    write_junit,
)
from strata_conformance.runner import Runner, focus

SPECS = ["[sig] a (b) should c/d-e [Conformance]", "[sig] a fails", "[sig] skips itself"]

# as the test binary: runs the specs of SPECS that --ginkgo.focus matches, by what their names say
FAKE = """
import json, os, re, signal, sys, time
options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
reports = []
for spec in json.loads(os.environ["SPECS"]):
    matches = re.search(options["ginkgo.focus"], "Kubernetes e2e suite " + spec)
    state = ("failed" if "fails" in spec else "skipped" if "skips" in spec else "passed") if matches else "skipped"
    if matches and "ends" in spec and not ("first time" in spec and os.path.exists(os.environ["CLEANED"])):
        open(os.environ["CLEANED"], "w").close()
        sys.exit("kube-system is not ready")
    if matches and "hangs" in spec:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(open(os.environ["CLEANED"], "w").close()))
        open(os.environ["CLEANED"] + ".begun", "w").close()
        time.sleep(60)
    reports.append({
        "ContainerHierarchyTexts": spec.split()[:1], "LeafNodeText": spec.partition(" ")[2], "LeafNodeType": "It",
        "State": state, "RunTime": 1500000000, "NumAttempts": int(bool(matches)),
        "Failure": {"Message": f"why {spec}"} if state != "passed" else None,
    })
open(options["ginkgo.json-report"], "w").write(json.dumps([{"SpecReports": reports}]))
"""


def runner(tmp_path: Path, specs: list[str], results: ResultFile) -> Runner:
    environment = os.environ | {"SPECS": json.dumps(specs), "CLEANED": str(tmp_path / "cleaned")}
    (tmp_path / "logs").mkdir(exist_ok=True)
    return Runner([sys.executable, "-c", FAKE], environment, results, tmp_path / "logs", Silent())


def test_results_of_each_spec_are_kept(tmp_path: Path) -> None:
    specs = [*SPECS, *(f"[sig] number {n}" for n in range(20))]
    file = tmp_path / "results.jsonl"
    results = ResultFile(file, "run")
    runner(tmp_path, specs, results).run(specs[:-1], 3)
    assert set(results.results) == set(specs[:-1])
    assert results.results[SPECS[0]] == Result(SPECS[0], PASSED, 1.5)
    assert results.results[SPECS[1]] == Result(SPECS[1], FAILED, 1.5, f"why {SPECS[1]}")
    assert results.results[SPECS[2]].state == SKIPPED
    assert ResultFile(file, "run").results == results.results
    # the next run has the failed one and the one that did not run left
    assert results.left(specs) == [SPECS[1], specs[-1]]
    assert [f.suffix for f in (tmp_path / "logs").iterdir()] == [".log"], (
        "the log of the batch with the failure is kept"
    )


def test_tests_that_end_before_their_first_spec_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata_conformance.runner.SETUP_PAUSES", (0.1,))
    specs = ["[sig] ends"]
    with pytest.raises(UserError, match="before their first spec: kube-system is not ready; log: "):
        runner(tmp_path, specs, ResultFile(tmp_path / "results", "run")).run(specs, 1)


def test_a_setup_that_fails_once_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata_conformance.runner.SETUP_PAUSES", (0.1,))
    specs = ["[sig] ends the first time"]
    results = ResultFile(tmp_path / "results", "run")
    runner(tmp_path, specs, results).run(specs, 1)
    assert results.results[specs[0]].state == PASSED
    assert list((tmp_path / "logs").iterdir()) == []


def test_an_interrupted_run_lets_its_tests_clean_up(tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM end the program by an exception in its first thread."""
    program = (
        "import signal, sys\n"
        "from pathlib import Path\n"
        "from test_run import ResultFile, runner\n"
        "from strata_bench.terminal import ending_in_order\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "with ending_in_order():\n"
        "    results = ResultFile(folder / 'results', 'run')\n"
        "    runner(folder, ['[sig] hangs', '[sig] b'], results).run(['[sig] hangs'], 2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    )
    try:
        begun = (tmp_path / "cleaned.begun").exists
        eventually(
            begun, 120, "cleaning has begun", hopeless=lambda: None if process.poll() is None else "it has ended"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert (tmp_path / "cleaned").exists()
    assert ResultFile(tmp_path / "results", "run").results == {}


def test_results_of_another_cluster_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    ResultFile(file, "one").add([Result("a", PASSED, 1)])
    with file.open("a") as stream:
        stream.write('{"spec": "b", "sta')  # cut off by a kill
    assert set(ResultFile(file, "one").results) == {"a"}
    assert ResultFile(file, "one", fresh=True).results == {}
    assert ResultFile(file, "other").results == {}
    assert ResultFile(file, "one").results == {}


@pytest.mark.parametrize("text", [None, "", "[{", "[]", '[{"SpecReports": null}]'])
def test_a_report_that_is_cut_off_has_no_results(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "report.json"
    if text is not None:
        file.write_text(text)
    assert read_report(file, SPECS) == []


def test_an_interrupted_spec_failed_and_those_after_it_have_no_result(tmp_path: Path) -> None:
    def report(text: str, state: str, attempts: int) -> dict[str, Any]:
        names = {"ContainerHierarchyTexts": None, "LeafNodeText": text, "LeafNodeType": "It"}
        return names | {"State": state, "RunTime": 0, "NumAttempts": attempts}

    file = tmp_path / "report.json"
    setup = report("", "failed", 1) | {"LeafNodeType": "SynchronizedBeforeSuite", "Failure": {"Message": "no nodes\n"}}
    specs = [setup, report("a", "timedout", 1), report("b", "skipped", 0), report("c", "passed", 1)]
    file.write_text(json.dumps([{"SpecReports": specs}]))
    assert read_report(file, ["a", "b"]) == [Result("a", FAILED, 0.0)]
    assert setup_failure(file) == "no nodes"


def test_the_focus_matches_these_specs_only() -> None:
    pattern = re.compile(focus(SPECS[:1]))
    assert pattern.search(f"Kubernetes e2e suite {SPECS[0]}")
    assert not pattern.search(f"Kubernetes e2e suite {SPECS[0]} and more")
    assert not pattern.search(f"Kubernetes e2e suite other {SPECS[0]}")
    assert not pattern.search("Kubernetes e2e suite [sig] a b should c/d-e C")


def test_failures_are_compared_with_the_expected_ones(tmp_path: Path) -> None:
    listed = {name: ExpectedFailure(spec=name, reason="because") for name in ("known", "repaired", "skips")}
    states = {"good": PASSED, "bad": FAILED, "known": FAILED, "repaired": PASSED, "skips": SKIPPED}
    results = {name: Result(name, state, 2, "\x1b[31mwhy") for name, state in states.items()}
    verdict = judge([*states, "absent"], results, listed)
    assert (verdict.passed, verdict.skipped, verdict.expected) == (("good",), ("skips",), ("known",))
    assert (verdict.failed, verdict.repaired, verdict.missing) == (("bad",), ("repaired",), ("absent",))
    assert not verdict.as_expected
    assert judge(["good", "known", "skips"], results, listed).as_expected
    for spec in ("bad", "repaired", "absent"):
        assert not judge([spec], results, listed).as_expected
    write_junit(tmp_path / "junit.xml", list(states), results, listed)
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()  # noqa: S314  # written above
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "1", "2")
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] == ["bad"]
