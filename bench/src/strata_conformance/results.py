"""Results of specs: kept while the tests run, compared with what is expected, written as JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from strata_conformance.expected import ExpectedFailure

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_NANOSECONDS = 1e9
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Result:
    """How one spec ended.

    Args:
        spec: its full name.
        state: PASSED, FAILED or SKIPPED (by the spec itself).
        seconds: how long it ran.
        message: of the failure, or why it skipped itself.
    """

    spec: str
    state: str
    seconds: float
    message: str = ""


def spec_name(report: Mapping[str, Any]) -> str:
    """Full name of the spec of a ginkgo report."""
    return " ".join([*(report["ContainerHierarchyTexts"] or []), report["LeafNodeText"]])


def _spec_reports(file: Path) -> list[dict[str, Any]]:
    try:
        return [report for suite in json.loads(file.read_text()) for report in suite["SpecReports"] or []]
    except (OSError, ValueError):
        return []


def setup_failure(file: Path) -> str:
    """Why the setup before the first spec failed, by a ginkgo JSON report; empty if it does not say."""
    failures = [r["Failure"] for r in _spec_reports(file) if r["LeafNodeType"] != "It" and r.get("Failure")]
    return str(failures[0]["Message"]).strip() if failures else ""


def read_report(file: Path, specs: Collection[str]) -> list[Result]:
    """Results of a ginkgo JSON report.

    Args:
        file: the report; may be missing or cut off, as of a process that was killed.
        specs: names of those that were to run.

    Returns:
        the results of those among them that ran.
    """
    results = []
    for report in _spec_reports(file):
        if report["LeafNodeType"] != "It" or spec_name(report) not in specs:
            continue
        state, message = report["State"], (report.get("Failure") or {}).get("Message", "")
        if state == SKIPPED and not report["NumAttempts"]:
            continue  # the run ended before it
        state = state if state in (PASSED, SKIPPED) else FAILED
        results.append(Result(spec_name(report), state, round(report["RunTime"] / _NANOSECONDS, 1), message))
    return results


class ResultFile:
    """Results on disk, one a line, so that a killed run loses only those of the specs that were running.

    Args:
        file: is created where it does not exist.
        run: what the results belong to; a file of another run is replaced.
        fresh: replace it in any case.
    """

    def __init__(self, file: Path, run: str, *, fresh: bool = False) -> None:
        self._file = file
        self.results: dict[str, Result] = {}
        lines = file.read_text().splitlines() if file.exists() else []
        if fresh or not lines or lines[0] != json.dumps(run):
            file.write_text(json.dumps(run) + "\n")
            lines = []
        for line in lines[1:]:
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError):
                continue  # cut off
            self.results[result.spec] = result

    def add(self, results: Iterable[Result]) -> None:
        """Keeps results; a later one of the same spec counts."""
        with self._file.open("a") as stream:
            for result in results:
                self.results[result.spec] = result
                stream.write(json.dumps(asdict(result)) + "\n")

    def left(self, specs: Iterable[str]) -> list[str]:
        """Those specs that have neither passed nor skipped themselves."""
        done = {name for name, result in self.results.items() if result.state != FAILED}
        return [spec for spec in specs if spec not in done]


@dataclass(frozen=True)
class Verdict:
    """The results against the expected failures.

    Args:
        passed, skipped: names of specs.
        failed: those that were not expected to fail.
        expected: those that failed as expected.
        repaired: those that passed although they were expected to fail.
        missing: those without a result.
    """

    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: tuple[str, ...]
    expected: tuple[str, ...]
    repaired: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def as_expected(self) -> bool:
        """Whether nothing failed but what was expected to, and all of that did."""
        return not (self.failed or self.repaired or self.missing)


def judge(specs: Iterable[str], results: Mapping[str, Result], expected: Mapping[str, ExpectedFailure]) -> Verdict:
    """Compares the results of specs with the expected failures."""
    groups: dict[str, list[str]] = {name: [] for name in Verdict.__dataclass_fields__}
    for spec in specs:
        result = results.get(spec)
        if result is None:
            groups["missing"].append(spec)
        elif result.state == FAILED:
            groups["expected" if spec in expected else "failed"].append(spec)
        elif result.state == PASSED and spec in expected:
            groups["repaired"].append(spec)
        else:
            groups[result.state].append(spec)
    return Verdict(**{name: tuple(names) for name, names in groups.items()})


def write_junit(file: Path, specs: Collection[str], results: Mapping[str, Result], expected: Collection[str]) -> None:
    """Writes results as JUnit XML; expected failures count as skipped."""
    suite = ElementTree.Element("testsuite", name="Kubernetes e2e suite", tests=str(len(specs)))
    counts = {"failures": 0, "skipped": 0}
    for result in (results[spec] for spec in specs if spec in results):
        case = ElementTree.SubElement(suite, "testcase", name=result.spec, time=str(result.seconds))
        if result.state == PASSED:
            continue
        failed = result.state == FAILED and result.spec not in expected
        counts["failures" if failed else "skipped"] += 1
        message = _NOT_XML.sub("?", result.message)
        ElementTree.SubElement(case, "failure" if failed else "skipped", message=message[:500]).text = message
    for name, count in counts.items():
        suite.set(name, str(count))
    ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
