"""Looks for drift, where a site is deployed."""

from __future__ import annotations

from rich.console import Console

from strata.drift.search import find_drift
from strata.drift_model import DriftReport
from strata.layers import Layer
from strata.lifecycle import CloudLifecycle
from strata.observe.facts import NOT_UP, Observation
from strata.report.terminal import drift_lines
from strata.site.context import SiteContext


def look_for_drift(
    context: SiteContext, lifecycle: CloudLifecycle, seen: Observation | None = None
) -> DriftReport | None:
    """Returns the drift; None for a site that was never deployed.

    Args:
        context: the site.
        lifecycle: of its cloud.
        seen: layers that did not respond then are not asked again.
    """
    if context.cloud_outputs is None and not (context.paths.root / "runs.jsonl").exists():
        return None

    silent = silent_layers(seen) if seen else {}
    report = find_drift(context, lifecycle, [layer for layer in Layer if layer not in silent])
    return report.model_copy(update={"unreachable": silent | report.unreachable})


def silent_layers(seen: Observation) -> dict[Layer, str]:
    """The layers of which nothing can be compared now, and why."""
    reasons = {Layer.CLOUD: seen.cloud.reason, Layer.CLUSTER: seen.cluster.reason, Layer.PLATFORM: seen.cluster.reason}
    return {layer: why for layer, why in reasons.items() if why is not None and why != NOT_UP}


def print_drift(console: Console, drift: DriftReport | None) -> None:
    """Prints a table of the drift; nothing if it was not checked."""
    if drift is not None:
        for part in drift_lines(drift):
            console.print(part, highlight=False)
