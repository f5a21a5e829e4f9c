"""`strata backup`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strata.access.backups import back_up, snapshots
from strata.cli.arguments import JsonOption, SiteArgument
from strata.cli.context import load_context
from strata.cli.output import print_json


def backup(
    site: SiteArgument,
    now: Annotated[bool, typer.Option("--now", help="Create a backup first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of NFS exports and databases."""
    context = load_context(site)
    with Console(stderr=True).status("reading") as status:
        if now:
            back_up(context, status)
        listed = snapshots(context)
    if as_json:
        print_json(listed)
        return
    table = Table("snapshot", "time", "what", "host", box=None)
    for snapshot in listed:
        table.add_row(snapshot["id"], snapshot["time"][:19], snapshot["item"], snapshot["host"])
    Console().print(table)
