"""`strata adopt`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Console

from strata.adopt.adoption import as_json as to_json
from strata.adopt.adoption import check_site, prepare, take_step
from strata.adopt.project import KINDS
from strata.adopt.render import render
from strata.cli.arguments import JsonOption, SiteArgument, YesOption, site_file
from strata.cli.display import RunDisplay
from strata.cli.lifecycle_choice import lifecycle_of
from strata.cli.output import print_json
from strata.engine.changes.disruption import Approval
from strata.engine.run_lock import site_lock
from strata.engine.run_record import record_run
from strata.engine.runner import run_steps
from strata.errors import UserError
from strata.site.context import SiteContext


def adopt(
    site: SiteArgument,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="KIND/NAME=ID",
            help="Adopt the object with this ID, regardless of its name, for example instance/worker-1=ID. Repeatable.",
            autocompletion=complete_map,
        ),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            "--replace",
            metavar="INSTANCE",
            help="Adopt this instance even if the next `up` would replace or rebuild it. Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be adopted.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import existing objects of the project into the state. Changes nothing in the cloud."""
    context = SiteContext.load(site_file(site))
    check_site(context)
    lifecycle_of(context).check()
    chosen = _chosen(given or ())
    console, name = Console(), context.site.name
    only_shown = dry_run or (as_json and not yes)
    with site_lock(context.paths, "adopt", context.site.state), ExitStack() as stack:
        with Console(stderr=True, quiet=as_json).status("looking up what exists") as status:
            adoption, tried = stack.enter_context(prepare(context, chosen, status))
        if not as_json:
            render(adoption, console)
        adoption.require_unambiguous(name)
        adopts = bool(adoption.rows) and not only_shown
        if adopts:
            adoption.require_approval(name, Approval(frozenset(replace or ())))
            if not yes and not typer.confirm(
                f"Import {len(adoption.rows)} objects into the state of site {name}? The cloud is not changed."
            ):
                raise typer.Exit(1)
            with RunDisplay(quiet=as_json) as display:
                record_run(context.paths, run_steps([take_step(context, adoption, tried)], display))
    if as_json:
        print_json(to_json(name, adoption, adopted=adopts))
    elif not adoption.rows:
        console.print("nothing to adopt")
    elif adopts:
        console.print(
            f"adopted {len(adoption.rows)} objects; next: `strata plan {site}`, `strata up {site}`", highlight=False
        )


def complete_map(incomplete: str) -> list[str]:
    """Kinds that `--map` takes, for shell completion."""
    return [f"{kind}/" for kind in KINDS.values() if kind.startswith(incomplete)]


def _chosen(given: Iterable[str]) -> dict[str, str]:
    """KIND/NAME to id.

    Raises:
        UserError: an entry is not KIND/NAME=ID.
    """
    chosen = {}
    for entry in given:
        key, _, identifier = entry.partition("=")
        kind, _, name = key.partition("/")
        if not (kind and name and identifier):
            raise UserError(f"--map {entry}: not KIND/NAME=ID", fix="for example --map instance/worker-1=ID")
        chosen[key] = identifier
    return chosen
