"""pytest plugin for a run in two parts (docs/testing.md): the tests that need no lab, and, alone, the lab's.

The second part's summary has the reports of the first. A failed test of the lab runs once more when its part ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.reports import TestReport
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

MOST_AGAIN = 5
"""More failures than this are a broken lab, which a second run of each would only take longer to say."""
FLAKY = "flaky"
OUTPUTS = "outputs"
"""Property of the report of a flaky test: the file with the outputs of both runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that scripts/test gives to the two parts."""
    group = parser.getgroup("suites", "runs in two parts (docs/testing.md)")
    group.addoption("--reports-to", type=Path, help="record the reports of this run in a file")
    group.addoption("--reports-from", type=Path, help="count the reports of an earlier part in this run's summary")
    group.addoption(
        "--flaky-to", type=Path, help="run failed tests of the lab once more; outputs of flaky ones go here"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers what the options ask for; workers of pytest-xdist report to their controller."""
    if hasattr(config, "workerinput"):
        return
    if file := config.getoption("reports_to"):
        config.pluginmanager.register(_Recorder(config, file))
    if file := config.getoption("reports_from"):
        config.pluginmanager.register(_EarlierPart(config, file))
    if file := config.getoption("flaky_to"):
        config.pluginmanager.register(_SecondRun(config, file))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Names flaky tests, those of an earlier part too."""
    if flaky := terminalreporter.stats.get(FLAKY):
        terminalreporter.write_sep("=", "flaky tests")
        for report in flaky:
            file = dict(report.user_properties)[OUTPUTS]
            terminalreporter.write_line(f"FLAKY {report.nodeid} - failed, then passed; both outputs: {file}")


def _reporter(config: pytest.Config) -> TerminalReporter:
    plugin = config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(plugin, TerminalReporter)
    return plugin


class _Recorder:
    """Writes each report of the summary as a line of JSON."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file
        file.unlink(missing_ok=True)

    def pytest_sessionfinish(self) -> None:
        with self.file.open("w", encoding="utf-8") as stream:
            for category, reports in _reporter(self.config).stats.items():
                for report in reports:
                    if isinstance(report, TestReport):
                        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
                        data.pop("node", None)  # pytest-xdist's worker, no value
                        stream.write(json.dumps({"category": category, "report": data}) + "\n")


class _EarlierPart:
    """Adds recorded reports to the summary; the tests that this part left out are among them, so are not named."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        reporter = _reporter(self.config)
        reporter.stats.pop("deselected", None)
        if not self.file.exists():  # the first part had no test
            return
        for line in self.file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            data: dict[str, Any] = entry["report"]
            if isinstance(data["longrepr"], list):  # of a skipped test: file, line, reason; JSON has no tuples
                data["longrepr"] = tuple(data["longrepr"])
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
            reporter.stats.setdefault(entry["category"], []).append(report)


class _SecondRun:
    """Runs each failed test of the lab once more, by itself, when all have run: one that passes then is flaky."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file
        self.failed: dict[str, list[TestReport]] = {}
        file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        again = [item for item in session.items if item.nodeid in self.failed and item.get_closest_marker("lab")]
        if len(again) > MOST_AGAIN:
            _reporter(self.config).write_line(f"\n{len(again)} tests of the lab failed: none is run again")
            return result
        for item in again:
            self._run_again(session, item)
        return result

    def _run_again(self, session: pytest.Session, item: pytest.Item) -> None:
        _reporter(self.config).write_line(f"\nonce more, by itself: {item.nodeid}")
        if isinstance(item, pytest.Function):
            item._initrequest()  # fixtures again, as pytest-rerunfailures does
        reports = runtestprotocol(item, nextitem=None, log=False)
        first = self.failed[item.nodeid]
        flaky = not any(report.failed for report in reports)
        with self.file.open("a", encoding="utf-8") as stream:
            for title, outputs in (("first run", first), ("second run", reports)):
                stream.write(f"===== {item.nodeid}: {title}, load now {os.getloadavg()[0]:.1f}\n")
                for report in outputs:
                    stream.write(
                        f"--- {report.when}: {report.outcome}, {report.duration:.1f} s\n{report.longreprtext}\n"
                    )
                    stream.writelines(f"[{name}]\n{text}\n" for name, text in report.sections)
        if not flaky:
            return
        stats = _reporter(self.config).stats
        for report in first:
            for category in ("failed", "error"):
                if report in stats.get(category, ()):
                    stats[category].remove(report)
            session.testsfailed -= 1
        first[0].user_properties.append((OUTPUTS, str(self.file)))
        stats.setdefault(FLAKY, []).append(first[0])
