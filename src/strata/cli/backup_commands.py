"""Commands on the site's backups: `strata backup`, `strata restore`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strata.cli.arguments import JsonOption, SiteArgument, load_context


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(backup)
    app.command()(restore)


def backup(
    site: SiteArgument,
    now: Annotated[bool, typer.Option("--now", help="Back up first, without waiting for the timer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of NFS exports and databases."""
    from strata.access.backups import back_up, snapshots

    context = load_context(site)
    with Console(stderr=True).status("reading") as status:
        if now:
            back_up(context, status)
        found = snapshots(context)
    if as_json:
        json.dump(found, sys.stdout, indent=1)
        print()
        return
    table = Table("snapshot", "time", "what", "host", box=None)
    for one in found:
        table.add_row(one["id"], one["time"][:19], one["item"], one["host"])
    Console().print(table)


def restore(
    site: SiteArgument,
    what: Annotated[str, typer.Option("--what", metavar="WHAT", help="export/NAME or database/NAME, as listed.")],
    target: Annotated[
        str, typer.Option("--target", metavar="TARGET", help="Directory on the host, or name of a database.")
    ],
    snapshot: Annotated[str, typer.Option("--snapshot", metavar="SNAPSHOT", help="Snapshot, as listed.")] = "latest",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Restore to a target that exists; its content is renamed, not deleted.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
) -> None:
    """Restore an export or a database from a snapshot, on the host that stores it."""
    from strata.access import backups

    context = load_context(site)
    choice = {"overwrite": overwrite, "dry_run": dry_run}
    with Console(stderr=True).status("restoring") as status:
        done = backups.restore(context, snapshot, what, target, progress=status, **choice)
    Console().print(done, highlight=False, markup=False, soft_wrap=True)
