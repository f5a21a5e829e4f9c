"""Remembers how the last runs went, for the summary and the benchmarks."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from strata.engine.steps import RunReport
from strata.paths import SitePaths


def record_run(paths: SitePaths, report: RunReport) -> None:
    """Appends the run's steps and times to runs.jsonl in the state directory."""
    entry = {
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(report.seconds, 2),
        "changed": report.changed,
        "steps": [asdict(s) for s in report.steps],
    }
    with (paths.root / "runs.jsonl").open("a") as stream:
        stream.write(json.dumps(entry) + "\n")
