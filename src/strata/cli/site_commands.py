"""Commands that change a site: up, kubespray, down, destroy."""

from __future__ import annotations

import json
import sys
import time
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
    YesOption,
    layers,
    site_file,
)
from strata.cli.display import RunDisplay

UNCHANGED_STATUS = 3
"""Exit status of `up --expect-unchanged` when something changed."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(up)
    app.command()(kubespray)
    app.command()(down)
    app.command()(destroy)


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
        bool, typer.Option("--yes", "-y", help="Approve the replacement of instances without data.")
    ] = False,
) -> None:
    """Deploy or repair a site, layer by layer. Idempotent; resumes after interruption."""
    from strata.cli.summary import print_summary
    from strata.engine.disruption import Approval
    from strata.engine.layers import up_steps
    from strata.engine.lock import site_lock
    from strata.engine.record import record_run
    from strata.engine.resolvable import check_names
    from strata.engine.steps import RunReport, run_steps
    from strata.engine.up import run_up
    from strata.layers import Layer
    from strata.platform.operator_values import has_values
    from strata.platform.releases import check_values, fetch_charts
    from strata.progress import Silent
    from strata.site.context import SiteContext
    from strata.site.secrets.provided import check_secrets
    from strata.verify.record import last_verified

    context = SiteContext.load(site_file(site))
    check_secrets(context.site)
    chosen = layers(layer)
    if Layer.PLATFORM in chosen and (has_values(context.site_file) or not context.provider.allows_substitutes):
        # values are checked by the chart that is installed; a chart that is not available stops the run here
        with Console(stderr=True).status("fetching charts"):
            fetch_charts(context.site, Silent())
    check_values(context.site, context.site_file)
    context.provider.check()
    check_names(context)
    with site_lock(context.paths, "up", context.site.state):

        def run(approval: Approval) -> RunReport:
            with RunDisplay(quiet=as_json, verbose=verbose) as display:
                steps = up_steps(context, chosen, thorough=thorough or expect_unchanged, approval=approval)
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
        wanted = (
            verify if verify is not None else layer is None and (report.changed > 0 or not last_verified(context.paths))
        )
        verified = None
        if wanted:
            from strata.verify.run import run_checks  # late: pytest takes longer than an unchanged site's layers

            verified = run_checks(context, quiet=as_json)
    if as_json:
        steps = [asdict(s) for s in report.steps]
        json.dump(
            {
                "site": context.site.name,
                "changed": report.changed,
                "seconds": round(report.seconds, 1),
                "steps": steps,
                "verified": None if verified is None else verified.passed,
            },
            sys.stdout,
            indent=1,
        )
        print()
    else:
        print_summary(context, report)
    if verified is not None and not verified.passed:
        raise typer.Exit(1)
    if expect_unchanged and report.changed:
        changed = ", ".join(f"{s.name} ({s.changed})" for s in report.steps if s.changed)
        Console(stderr=True).print(f"expected no change, but changed: {changed}", markup=False)
        raise typer.Exit(UNCHANGED_STATUS)


def kubespray(site: SiteArgument) -> None:
    """Write the Kubespray inventory of a site, and show which playbooks `strata up` would run."""
    from strata.engine.lock import site_lock
    from strata.kubespray.configuration import inventory_directory
    from strata.kubespray.run import prepare
    from strata.site.context import SiteContext
    from strata.site.secrets.provided import check_secrets

    context = SiteContext.load(site_file(site))
    check_secrets(context.site)
    with site_lock(context.paths, "kubespray", context.site.state):
        runs = prepare(context)
    console = Console(soft_wrap=True)
    console.print(f"inventory: {inventory_directory(context.paths)}", highlight=False, markup=False)
    for one in runs:
        console.print(f"{one.playbook}.yml would run: {one.reason}", highlight=False, markup=False)
    if not runs:
        console.print("nothing to run: no change since the last success; `strata up` also compares the nodes")


def down(site: SiteArgument) -> None:
    """Stop the containers and processes of a lab. Data is kept; `strata up` starts the lab again."""
    from strata.engine.lock import site_lock
    from strata.site.context import SiteContext

    context = SiteContext.load(site_file(site))
    begin = time.monotonic()
    console = Console(stderr=True)
    with site_lock(context.paths, "down", context.site.state), console.status("stopping") as status:
        context.provider.stop(status)
    console.print(
        f"{context.site.name} is stopped ({time.monotonic() - begin:.1f} s); `strata up {site}` starts it again"
    )


def destroy(site: SiteArgument, yes: YesOption = False, remove: RemoveOption = None) -> None:
    """Remove a site's instances, networks, data and state. Hosts in hosts.machines are not changed."""
    from strata.engine.lock import site_lock
    from strata.engine.removal import left_on_machines, remove_state
    from strata.models import find_site
    from strata.site.context import SiteContext
    from strata.site.data_protection import require_named_volumes
    from strata.stacks.pulumi import Program, stack_settings_file

    context = SiteContext.load(find_site(site))
    require_named_volumes(context.site, context.paths, remove or ())
    console = Console(stderr=True)
    what = context.provider.contents
    if machines := left_on_machines(context.site):
        what += ", and the passwords and certificates of its machines"
        console.print(
            "Nothing is removed from these machines; they keep running, with services, data and the site's SSH key:",
            *machines,
            f"The SSH key to them stays in {context.paths.ssh_key}.",
            sep="\n  ",
            highlight=False,
            soft_wrap=True,
        )
    if not yes and not typer.confirm(f"Remove {what} of site {context.site.name}?"):
        raise typer.Exit(1)
    begin = time.monotonic()
    with site_lock(context.paths, "destroy", context.site.state), console.status("removing") as status:
        if not context.provider.remove_cloud(status) and context.site.cloud is not None:
            from strata.stacks import pulumi

            pulumi.destroy("cloud", context.site, context.paths, status, site_file=context.site_file)
    if context.site.state is not None:
        from strata.shared_state.session import erase

        erase(context.paths, context.site.state)
    programs: tuple[Program, ...] = ("cloud", "platform")
    for program in programs:
        stack_settings_file(program, context.site.name).unlink(missing_ok=True)
    remove_state(context.paths, keep_ssh_key=bool(machines))
    console.print(f"{context.site.name} is gone ({time.monotonic() - begin:.1f} s); caches stay in the cache directory")
