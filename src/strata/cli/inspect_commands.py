"""Commands that change no site: validate, plan, status, report, verify, explain, env, doctor, new, new-service."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from strata.cli.arguments import (
    JsonOption,
    LayerOption,
    SiteArgument,
    complete_site,
    layers,
    load_context,
    require_clone,
    site_file,
)
from strata.site.paths import INSTALLED


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (validate, plan, status, report, verify, explain, env, doctor):
        app.command()(command)
    app.command("new")(new)
    app.command("new-service")(new_service)


def _print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=1, default=str)
    print()


def validate(site: SiteArgument, as_json: JsonOption = False) -> None:
    """Report all errors in the site file with line, key, value and fix."""
    from strata.models import SiteError, load_site
    from strata.platform.releases import check_values
    from strata.site.secrets.provided import check_secrets

    file = site_file(site)
    try:
        loaded = load_site(file)
    except SiteError as error:
        if not as_json:
            raise
        _print_json({"valid": False, "problems": [p.__dict__ | {"file": str(p.file)} for p in error.problems]})
        raise typer.Exit(2) from None
    check_secrets(loaded)
    check_values(loaded, file)
    if as_json:
        _print_json({"valid": True, "site": loaded.name, "file": str(file)})
    else:
        Console().print(f"[green]✓[/] {file}: site {loaded.name} is valid", highlight=False)


def plan(
    site: SiteArgument,
    layer: LayerOption = None,
    as_json: JsonOption = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not compare with the deployed site.")] = False,
) -> None:
    """Show planned resources of each layer; compare them with the site if it is deployed."""
    from strata.plan import plan as make_plan
    from strata.plan import render
    from strata.platform.releases import check_values

    context = load_context(site)
    check_values(context.site, context.site_file)
    made = make_plan(context.site)
    if as_json:
        _print_json(made.model_dump(mode="json"))
        return
    render(made, Console(), [str(chosen) for chosen in layers(layer)])
    from strata.engine.difference import show_changes, show_difference

    show_changes(context, Console(), layers(layer))
    if offline or not context.provider.can_compare():
        return
    show_difference(context, Console(), layers(layer))


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
    from strata.observe import observe
    from strata.observe.status import print_status
    from strata.report import SiteReport, build_report
    from strata.report.drift import look_for_drift, print_drift

    context = load_context(site)
    with_drift = drift if drift is not None else not watch
    console = Console()

    def look() -> SiteReport:
        seen = observe(context)
        found = build_report(context, observation=seen)
        if not as_json and not watch:  # the search for drift takes longer than what is down may wait
            print_status(console, context, list(found.objects))
            for note in found.notes:
                console.print(note, highlight=False, markup=False)
        if not with_drift:
            return found
        with Console(stderr=True).status("looking for drift"):
            return build_report(context, observation=seen, drift=look_for_drift(context, seen))

    if watch:
        from strata.cli.watch import watch as show

        shown = show(look, interval=interval, frames=frames)
        raise typer.Exit(int(frames is not None and shown is not None and not shown.healthy))
    found = look()
    if as_json:
        _print_json(found.model_dump(mode="json"))
    else:
        print_drift(console, found.drift)
    if not found.healthy:
        raise typer.Exit(1)


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
    from strata.observe import observe
    from strata.report import build_report
    from strata.report.drift import look_for_drift
    from strata.report.load import load_of
    from strata.report.model import UnknownLoad
    from strata.report.page import render_page, write_page

    context = load_context(site)
    with Console(stderr=True).status("querying the site"):
        seen = None if offline else observe(context)
        found = look_for_drift(context, seen) if drift and seen else None
        load = None if offline else load_of(context)
        page = render_page(build_report(context, offline=offline, observation=seen, drift=found, load=load))
    if isinstance(load, UnknownLoad):
        Console(stderr=True).print(f"load and alerts are unknown: {load.reason}", highlight=False, markup=False)
    if str(output) == "-":
        print(page, end="")
        return
    written = write_page(output or Path(f"{context.site.name}.html"), page)
    Console(stderr=True).print(f"wrote {written} ({len(page.encode()) / 1024:.0f} KiB)", highlight=False)


def verify(
    site: SiteArgument,
    as_json: JsonOption = False,
    keyword: Annotated[
        str | None, typer.Option("-k", help="Run only checks whose names match, as with pytest -k.")
    ] = None,
) -> None:
    """Run end-to-end checks against a site. Exits 1 if a check fails."""
    from strata.verify.run import as_json as to_json
    from strata.verify.run import run_checks

    verification = run_checks(load_context(site), quiet=as_json, keyword=keyword)
    if as_json:
        _print_json(to_json(verification))
    if not verification.passed:
        raise typer.Exit(1)


def explain(
    site: SiteArgument,
    key: Annotated[str, typer.Argument(metavar="KEY.PATH", help="Key path, for example cloud.flavors.0.memory.")],
    as_json: JsonOption = False,
) -> None:
    """Show a key's value, where it is set, its meaning, and what uses it."""
    from strata.models.explain import explain as explain_key

    explanation = explain_key(site_file(site), key)
    if as_json:
        _print_json(explanation.model_dump(mode="json"))
    else:
        Console().print(explanation.text(), markup=False, highlight=False, soft_wrap=True)


def env(site: SiteArgument, as_json: JsonOption = False) -> None:
    """Print shell exports for the native tools. Usage: eval "$(strata env SITE)"."""
    from strata.access.environment import site_environment

    variables = site_environment(load_context(site))
    if as_json:
        _print_json(variables)
        return
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def doctor(
    site: Annotated[str | None, typer.Argument(metavar="[SITE]", autocompletion=complete_site)] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the deployment host and list the pinned tools and, with SITE, orphaned resources. Exits 1 on a problem."""
    from strata.cli.doctor import run_doctor

    if not run_doctor(site, as_json=as_json):
        raise typer.Exit(1)


def new(
    name: Annotated[str, typer.Argument(metavar="SITE", help="Name of the new site.")],
    like: Annotated[str, typer.Option("--like", help="Site to copy.", autocompletion=complete_site)] = "campus"
    if INSTALLED
    else "lab",
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Parent directory; default: inventories/.")
    ] = None,
) -> None:
    """Create a site file from that of another site. A lab gets networks that are free on the deployment host."""
    from strata.engine.lock import machine_lock
    from strata.models import load_site
    from strata.models.find import inventories
    from strata.models.new import new_site
    from strata.provider import provider_of

    with machine_lock("new"):  # two at once would choose the same networks
        old = site_file(like)
        provider = provider_of(load_site(old))
        networks = provider.local_networks().values()
        file = new_site(name, old, directory or inventories(), networks, provider.networks_in_use())
        provider.remember(file)
    console = Console()
    console.print(f"wrote {file}; next: edit it, then `strata validate {name}`", markup=False, highlight=False)
    for key, network in provider_of(load_site(file)).local_networks().items():
        console.print(f"  {key}: {network}", markup=False, highlight=False)


def new_service(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new service.")]) -> None:
    """Create the folder and the chart of a working platform service."""
    require_clone(f"new-service {name}")
    from strata.catalogue.new import new_service as write
    from strata.site.paths import REPOSITORY

    folders = ", ".join(f"{path.relative_to(REPOSITORY)}/" for path in write(name))
    key = name.replace("-", "_")
    Console().print(
        f"wrote {folders} and docs/reference/; next: `{key}: {{}}` below platform.services of a site file, then "
        "`strata up`",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
