"""Looks for drift, where a site is deployed."""

from __future__ import annotations

from rich.console import Console

from strata.drift import DriftReport
from strata.report.terminal import drift_lines
from strata.site.context import SiteContext


def look_for_drift(context: SiteContext) -> DriftReport | None:
    """Returns the drift; None for a site that was never deployed."""
    if context.cloud_outputs is None and not (context.paths.root / "runs.jsonl").exists():
        return None
    from strata.drift.find import find_drift

    return find_drift(context)


def print_drift(console: Console, drift: DriftReport | None) -> None:
    """Prints a table of the drift; nothing if it was not checked."""
    if drift is not None:
        for part in drift_lines(drift):
            console.print(part, highlight=False)
