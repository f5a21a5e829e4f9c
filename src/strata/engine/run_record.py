"""Remembers how the last runs went, for the summary and the benchmarks."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterable
from dataclasses import asdict

from strata.engine.runner import RunReport
from strata.layers import Layer
from strata.site.paths import SitePaths

RUNS = "runs.jsonl"


def record_run(paths: SitePaths, report: RunReport) -> None:
    """Appends the run's steps and times to runs.jsonl in the state directory."""
    entry = {
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(report.seconds, 2),
        "changed": report.changed,
        "steps": [asdict(s) for s in report.steps],
    }
    with (paths.root / RUNS).open("a") as stream:
        stream.write(json.dumps(entry) + "\n")


def last_complete_run(paths: SitePaths, layers: Iterable[Layer]) -> float | None:
    """When the last successful run that took in these layers ended, in seconds since 1970; None where none did."""
    file = paths.root / RUNS
    required = {layer.value for layer in layers}
    for line in reversed(file.read_text().splitlines() if file.exists() else []):
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # partially written by an interrupted run
        if required <= {step["layer"] for step in entry["steps"]}:
            return datetime.datetime.fromisoformat(entry["ended"]).timestamp()
    return None
