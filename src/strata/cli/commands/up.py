"""`strata up`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import (
    JsonOption,
    LayerOption,
    RemoveOption,
    ReplaceOption,
    SiteArgument,
    layers,
    site_file,
)
from strata.cli.display import RunDisplay
from strata.cli.lifecycle_choice import lifecycle_of
from strata.cli.output import print_json
from strata.cli.summary import print_summary
from strata.engine.changes.disruption import Approval
from strata.engine.resolvable import check_names
from strata.engine.run_lock import site_lock
from strata.engine.run_record import record_run
from strata.engine.runner import RunReport, run_steps
from strata.engine.up import run_up
from strata.engine.up_steps import up_steps
from strata.layers import Layer
from strata.platform.operator_values import has_values
from strata.platform.releases import check_values, fetch_charts
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.secrets.provided import check_secrets
from strata.verify.record import last_verified

UNCHANGED_STATUS = 3


def up(
    site: SiteArgument,
    layer: LayerOption = None,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what each step waits for.")] = False,
    verify: Annotated[
        bool | None,
        typer.Option("--verify/--no-verify", help="Run `strata verify` afterwards. Default: if anything changed."),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Run every playbook and Pulumi program, even if nothing changed or drifted since its last success.",
        ),
    ] = False,
    expect_unchanged: Annotated[
        bool,
        typer.Option(
            "--expect-unchanged",
            help=f"Run every playbook and Pulumi program. Exits {UNCHANGED_STATUS} if anything changed; for CI.",
        ),
    ] = False,
    remove: RemoveOption = None,
    replace: ReplaceOption = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Approve the replacement of instances without data, and the draining of nodes and hypervisors.",
        ),
    ] = False,
) -> None:
    """Deploy or repair a site, layer by layer. Idempotent; resumes after interruption."""
    context = SiteContext.load(site_file(site))
    check_secrets(context.site)
    chosen = layers(layer)
    if Layer.PLATFORM in chosen and (has_values(context.site_file) or not context.provider.allows_substitutes):
        # values are checked by the chart that is installed; a chart that is not available stops the run here
        with Console(stderr=True).status("fetching charts"):
            fetch_charts(context.site, Silent())
    check_values(context.site, context.site_file)
    lifecycle = lifecycle_of(context)
    lifecycle.check()
    check_names(context)
    with site_lock(context.paths, "up", context.site.state):

        def run(approval: Approval) -> RunReport:
            with RunDisplay(quiet=as_json, verbose=verbose) as display:
                steps = up_steps(context, lifecycle, chosen, thorough=thorough or expect_unchanged, approval=approval)
                return run_steps(steps, display)

        report = run_up(
            context,
            chosen,
            remove=remove or (),
            approval=Approval(frozenset(replace or ()), everything=yes),
            run=run,
            ask=None if as_json or not sys.stdin.isatty() else lambda what: typer.confirm(f"{what}\nGo on?"),
        )
        record_run(context.paths, report)
        should_verify = (
            verify if verify is not None else layer is None and (report.changed > 0 or not last_verified(context.paths))
        )
        verified = None
        if should_verify:
            from strata.verify.run import run_checks  # noqa: PLC0415  # loads pytest

            verified = run_checks(context, quiet=as_json)
    if as_json:
        steps = [asdict(s) for s in report.steps]
        print_json(
            {
                "site": context.site.name,
                "changed": report.changed,
                "seconds": round(report.seconds, 1),
                "steps": steps,
                "verified": None if verified is None else verified.passed,
            }
        )
    else:
        print_summary(context, report)
    if verified is not None and not verified.passed:
        raise typer.Exit(1)
    if expect_unchanged and report.changed:
        changed = ", ".join(f"{s.name} ({s.changed})" for s in report.steps if s.changed)
        Console(stderr=True).print(f"expected no change, but changed: {changed}", markup=False)
        raise typer.Exit(UNCHANGED_STATUS)
