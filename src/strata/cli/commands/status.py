"""`strata status`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import JsonOption, SiteArgument
from strata.cli.context import load_context
from strata.cli.lifecycle_choice import lifecycle_of
from strata.cli.output import print_json
from strata.cli.watch import watch as show
from strata.observe import observe
from strata.observe.status import print_status
from strata.report import SiteReport, build_report
from strata.report.drift import look_for_drift, print_drift


def status(
    site: SiteArgument,
    as_json: JsonOption = False,
    drift: Annotated[
        bool | None,
        typer.Option("--drift/--no-drift", help="Check for drift, too. Default: yes; with --watch, no."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until q is pressed.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, help="With --watch: seconds between refreshes.")
    ] = 3.0,
    frames: Annotated[
        int | None, typer.Option("--frames", min=1, help="With --watch: number of refreshes; default: no limit.")
    ] = None,
) -> None:
    """Show health and drift. Exits 1 if an object is unhealthy or has drifted."""
    context = load_context(site)
    with_drift = drift if drift is not None else not watch
    console = Console()

    def look() -> SiteReport:
        seen = observe(context)
        report = build_report(context, observation=seen)
        if not as_json and not watch:  # the search for drift takes longer than what is down may wait
            print_status(console, context, list(report.objects))
            for note in report.notes:
                console.print(note, highlight=False, markup=False)
        if not with_drift:
            return report
        with Console(stderr=True).status("looking for drift"):
            return build_report(context, observation=seen, drift=look_for_drift(context, lifecycle_of(context), seen))

    if watch:
        shown = show(look, interval=interval, frames=frames)
        raise typer.Exit(int(frames is not None and shown is not None and not shown.healthy))
    report = look()
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        print_drift(console, report.drift)
    if not report.healthy:
        raise typer.Exit(1)
