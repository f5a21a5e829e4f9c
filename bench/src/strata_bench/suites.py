"""pytest plugin for a run in two parts (docs/testing.md): the tests that need no lab, and, alone, the lab's.

The second part's summary has the reports of the first. A failed test runs once more, alone, when its part ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.reports import TestReport
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

MOST_AGAIN = 5
"""More failures than this are a broken lab or change, which a second run of each would only take longer to report."""
FLAKY = "flaky"
OUTPUTS = "outputs"
"""Property of the report of a flaky test: the file with the outputs of both runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that scripts/test gives to the two parts."""
    group = parser.getgroup("suites", "runs in two parts (docs/testing.md)")
    group.addoption("--reports-to", type=Path, help="record the reports of this run in a file")
    group.addoption("--reports-from", type=Path, help="count the reports of an earlier part in this run's summary")
    group.addoption("--flaky-to", type=Path, help="run failed tests once more; outputs of both runs go here")


def pytest_configure(config: pytest.Config) -> None:
    """Registers what the options ask for; workers of pytest-xdist report to their controller."""
    if hasattr(config, "workerinput"):
        return
    if file := config.getoption("reports_to"):
        config.pluginmanager.register(_Recorder(config, file))
    if file := config.getoption("reports_from"):
        config.pluginmanager.register(_EarlierPart(config, file))
    if file := config.getoption("flaky_to"):
        workers = config.getoption("numprocesses", default=None)
        config.pluginmanager.register((_SecondRunInOneProcess if workers else _SecondRun)(config, file))


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
    """Runs each failed test once more, by itself, when all have run: one that passes then is flaky."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file
        self.failed: dict[str, list[TestReport]] = {}
        file.unlink(missing_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        result = yield
        if len(self.failed) > MOST_AGAIN:
            _reporter(self.config).write_line(f"\n{len(self.failed)} tests failed: none is run again")
            return result
        for name in list(self.failed):
            _reporter(self.config).write_line(f"\nonce more, by itself: {name}")
            if self._passes(name):
                self._is_flaky(name)
        return result

    def _passes(self, name: str) -> bool:
        item = next(item for item in self.session.items if item.nodeid == name)
        if isinstance(item, pytest.Function):
            item._initrequest()  # fixtures again, as pytest-rerunfailures does
        reports = runtestprotocol(item, nextitem=None, log=False)
        self._write(name, "first run", _text(self.failed[name]))
        self._write(name, "second run", _text(reports))
        return not any(report.failed for report in reports)

    def _write(self, name: str, title: str, text: str) -> None:
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(f"===== {name}: {title}, load now {os.getloadavg()[0]:.1f}\n{text}\n")

    def _is_flaky(self, name: str) -> None:
        stats, first = _reporter(self.config).stats, self.failed[name]
        for report in first:
            for category in ("failed", "error"):
                if report in stats.get(category, ()):
                    stats[category].remove(report)
            self.session.testsfailed -= 1
        first[0].user_properties.append((OUTPUTS, str(self.file)))
        stats.setdefault(FLAKY, []).append(first[0])


class _SecondRunInOneProcess(_SecondRun):
    """The same for tests that ran on workers, whose controller has no tests to run: pytest runs each in a process."""

    def _passes(self, name: str) -> bool:
        self._write(name, "first run", _text(self.failed[name]))
        # pytest-xdist appends @group where tests of a group stay on one worker
        node = name.rpartition("@")[0] if name.rfind("@") > name.rfind("]") else name
        plugins = [word for plugin in self.config.getoption("plugins") for word in ("-p", plugin)]
        command = [sys.executable, "-m", "pytest", *plugins, "--numprocesses=0", "-m", "", node]
        done = subprocess.run(
            command, cwd=self.config.rootpath, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
        self._write(name, "second run", done.stdout)
        return done.returncode == 0


def _text(reports: Sequence[TestReport]) -> str:
    lines: list[str] = []
    for report in reports:
        lines.append(f"--- {report.when}: {report.outcome}, {report.duration:.1f} s\n{report.longreprtext}")
        lines += [f"[{name}]\n{text}" for name, text in report.sections]
    return "\n".join(lines)
