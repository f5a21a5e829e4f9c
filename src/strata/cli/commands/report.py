"""`strata report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import SiteArgument
from strata.cli.context import load_context
from strata.cli.lifecycle_choice import lifecycle_of
from strata.observe import observe
from strata.report import build_report
from strata.report.drift import look_for_drift
from strata.report.load import load_of
from strata.report.model import UnknownLoad
from strata.report.page import render_page, write_page


def report(
    site: SiteArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; - for standard output. Default: SITE.html.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not query the site: report the planned state.")
    ] = False,
    drift: Annotated[bool, typer.Option("--drift/--no-drift", help="Check for drift, too.")] = True,
) -> None:
    """Write an HTML page with the site's nodes, accelerators, health, load, drift, versions and run times."""
    context = load_context(site)
    with Console(stderr=True).status("querying the site"):
        seen = None if offline else observe(context)
        drift_report = look_for_drift(context, lifecycle_of(context), seen) if drift and seen else None
        load = None if offline else load_of(context)
        page = render_page(build_report(context, offline=offline, observation=seen, drift=drift_report, load=load))
    if isinstance(load, UnknownLoad):
        Console(stderr=True).print(f"load and alerts are unknown: {load.reason}", highlight=False, markup=False)
    if str(output) == "-":
        print(page, end="")
        return
    written = write_page(output or Path(f"{context.site.name}.html"), page)
    Console(stderr=True).print(f"wrote {written} ({len(page.encode()) / 1024:.0f} KiB)", highlight=False)
