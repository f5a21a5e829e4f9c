"""Runs the checks and shows them as a table."""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.verify.plugin import check_paths
from strata.verify.record import record_verified
from strata.verify.workers import CLAIM

WORKERS = 5
"""Processes that run checks; these wait for the site more than they compute."""


@dataclass
class CheckResult:
    """One claim and how its check ended: passed, failed or skipped."""

    area: str
    claim: str
    state: str
    seconds: float
    reason: str = ""


@dataclass
class Verification:
    """All checks of a run."""

    site: str
    results: list[CheckResult] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """No check failed, and at least one passed."""
        return any(r.state == "passed" for r in self.results) and not any(r.state == "failed" for r in self.results)


class _Collector:
    """Takes the reports, from pytest-xdist's workers too."""

    def __init__(self, console: Console, verification: Verification) -> None:
        self.console = console
        self.verification = verification

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        reason = ""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash is not None else str(report.longrepr)[-400:]
        result = CheckResult(
            Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_"),
            str(dict(report.user_properties).get(CLAIM, report.nodeid)),  # a worker that crashed reports no properties
            report.outcome,
            report.duration,
            reason,
        )
        self.verification.results.append(result)
        mark = {"passed": "[green]✓[/]", "failed": "[red]✗[/]", "skipped": "[yellow]–[/]"}[report.outcome]
        line = f"{mark} {result.area}: {escape(result.claim)} [dim]{result.seconds:.1f} s[/]"
        self.console.print(line, highlight=False, soft_wrap=True)
        if reason:
            self.console.print(f"    {reason}", markup=False, highlight=False, style="dim", soft_wrap=True)


def run_checks(context: SiteContext, *, quiet: bool = False, keyword: str | None = None) -> Verification:
    """Runs all checks against a site.

    Args:
        context: the site; it must be up.
        quiet: print nothing, for `--json`.
        keyword: only checks whose names match, as `pytest -k`.
    """
    verification = Verification(context.site.name)
    console = Console(file=sys.stdout, quiet=quiet)
    begin = time.monotonic()
    arguments = [
        *map(str, check_paths(context.site)),
        "--import-mode=importlib",
        "-p",
        "strata.verify.plugin",
        "-p",
        "strata.verify.workers",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    # testinfra's own plugin would put its fixture `host` in the place of ours
    arguments += ["-p", "no:pytest11.testinfra"]
    arguments += ["--rootdir", str(REPOSITORY), "--strata-site", str(context.site_file), "-q"]
    if keyword:  # a few checks are sooner done than workers have started
        arguments += ["-k", keyword]
    else:
        arguments += [f"--numprocesses={WORKERS}", "--dist=loadgroup", "--no-loadscope-reorder"]
    text = io.StringIO()
    # pytest's own report goes to the log, the table is ours
    with redirect_stdout(text), redirect_stderr(text):
        status = pytest.main(arguments, plugins=[_Collector(console, verification)])
    verification.seconds = time.monotonic() - begin
    context.paths.create()
    (context.paths.logs / "verify.log").write_text(text.getvalue())
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not any(
        r.state == "failed" for r in verification.results
    ):
        tail = " ".join(text.getvalue().strip().splitlines()[-3:])
        verification.results.append(
            CheckResult("verify", f"the checks run (pytest status {int(status)})", "failed", 0.0, tail)
        )
    if verification.passed and keyword is None:
        record_verified(context.paths, verification.seconds)
    if not quiet:
        print_table(console, verification)
    return verification


def unchecked_areas(verification: Verification) -> list[str]:
    """The areas of which no check ran, each since the site declares nothing of it."""
    areas = dict.fromkeys(r.area for r in verification.results)
    ran = {r.area for r in verification.results if r.state != "skipped"}
    return [area for area in areas if area not in ran]


def print_table(console: Console, verification: Verification) -> None:
    """One line per area with counts, then why checks were skipped, and the areas that were not checked at all."""
    table = Table("area", "passed", "failed", "skipped", title=f"verify {verification.site}", title_justify="left")
    for area in dict.fromkeys(r.area for r in verification.results):
        states = [r.state for r in verification.results if r.area == area]
        table.add_row(area, *(str(states.count(s)) for s in ("passed", "failed", "skipped")))
    console.print(table)
    reasons = Counter(r.reason for r in verification.results if r.state == "skipped")
    for reason, number in reasons.most_common():
        console.print(f"skipped {number}: {reason}", markup=False, highlight=False, style="dim", soft_wrap=True)
    if areas := unchecked_areas(verification):
        text = f"not checked, because the site does not have it: {', '.join(areas)}"
        console.print(text, markup=False, highlight=False, style="yellow", soft_wrap=True)
    verdict = "[green]verified[/]" if verification.passed else "[red]not verified[/]"
    console.print(f"{verdict} in {verification.seconds:.0f} s", highlight=False)


def as_json(verification: Verification) -> dict[str, object]:
    """The verification for programs."""
    return {
        "site": verification.site,
        "passed": verification.passed,
        "unchecked_areas": unchecked_areas(verification),
        "checks": [asdict(r) for r in verification.results],
    }
