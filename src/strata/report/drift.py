"""Looks for what was changed by hand, where there is something to look at."""

from __future__ import annotations

from rich.console import Console

from strata.drift import DriftReport
from strata.report.terminal import drift_lines
from strata.site.context import SiteContext


def look_for_drift(context: SiteContext) -> DriftReport | None:
    """What was changed by hand; None for a site that was never brought up, of which nothing can have changed."""
    if context.cloud_outputs is None and not (context.paths.root / "runs.jsonl").exists():
        return None
    from strata.drift.find import find_drift

    return find_drift(context)


def print_drift(console: Console, drift: DriftReport | None) -> None:
    """A table of what was changed by hand; nothing where nobody looked."""
    if drift is not None:
        for part in drift_lines(drift):
            console.print(part, highlight=False)
