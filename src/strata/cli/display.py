"""Shows the steps of a run: live in a terminal, a line per event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from strata.engine.runner import StepReport
from strata.layers import Step

MARKS = {"done": "[green]✓[/]", "failed": "[red]✗[/]", "skipped": "[dim]–[/]"}

HEARTBEAT_SECONDS = 15.0
"""Without a terminal, how often a running step reports what it waits for, in seconds."""


@dataclass
class _Line:
    """A step under way, as `Progress` for the step and as a row for the display."""

    name: str
    plain: Console | None
    interval: float
    started: float = field(default_factory=time.monotonic)
    text: str = ""
    told: float = field(default_factory=time.monotonic)

    def update(self, text: str) -> None:
        self.text = text
        now = time.monotonic()
        if self.plain is not None and now - self.told >= self.interval:
            self.told = now
            line = f"{time.strftime('%H:%M:%S')}   {self.name}: {now - self.started:.0f} s, {text}"
            self.plain.print(line, markup=False, highlight=False, soft_wrap=True)


class RunDisplay:
    """Context manager; implements `strata.engine.runner.Display`.

    Args:
        quiet: nothing is shown, for `--json`.
        verbose: without a terminal every progress text is a line, not one in some seconds.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._console = Console(file=sys.stderr, quiet=quiet)
        self._terminal = self._console.is_terminal and not quiet
        self._verbose = verbose
        self._lines: dict[str, _Line] = {}
        self._mutex = threading.Lock()
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table, transient=True)

    def __enter__(self) -> RunDisplay:
        if self._terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._live.stop()

    def started(self, step: Step) -> _Line:
        """A step begins."""
        plain = None if self._terminal else self._console
        line = _Line(step.name, plain, 0 if self._verbose else HEARTBEAT_SECONDS)
        with self._mutex:
            self._lines[step.name] = line
        if not self._terminal:
            self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] … {step.layer}: {step.name}", highlight=False)
        return line

    def ended(self, report: StepReport) -> None:
        """A step ended."""
        with self._mutex:
            self._lines.pop(report.name, None)
        changed = f", {report.changed} changed" if report.changed else ""
        self._console.print(
            f"[dim]{time.strftime('%H:%M:%S')}[/] {MARKS[report.state]} {report.layer}: {report.name}"
            f" [dim]{report.seconds:.1f} s{changed}  {escape(report.detail)}[/]",
            highlight=False,
            soft_wrap=True,
        )

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        with self._mutex:
            for line in self._lines.values():
                seconds = time.monotonic() - line.started
                table.add_row("[cyan]…[/]", line.name, f"{seconds:.0f} s", f"[dim]{escape(line.text)}[/]")
        return table
