"""List and rotate the site's secrets."""

from __future__ import annotations

import typer
from rich.console import Console

from strata.cli.arguments import JsonOption, SiteArgument
from strata.cli.context import load_context
from strata.cli.entries import ALL, NamesArgument, show_entries
from strata.engine import rotation
from strata.engine.run_lock import site_lock

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.command("list")
def list_(site: SiteArgument, as_json: JsonOption = False) -> None:
    """List secrets, their source, and when a new value is applied. Values are never shown."""
    show_entries(rotation.list_secrets(load_context(site)), as_json, "name", "source", "applied")


@app.command()
def rotate(site: SiteArgument, names: NamesArgument) -> None:
    """Replace the values of secrets. Run `strata up` to apply them to all services."""
    context = load_context(site)
    console = Console(stderr=True)
    with site_lock(context.paths, "secrets rotate", context.site.state), console.status("rotating") as status:
        if names == [ALL]:
            names = [entry.name for entry in rotation.list_secrets(context) if entry.source == "generated"]
        rotated = rotation.rotate(context, names, status)
    for entry in rotated:
        console.print(f"{entry.name}: rotated; applied {entry.applied}", highlight=False, soft_wrap=True)
    if any(entry.applied != "at once" for entry in rotated):
        console.print(f"next: `strata up {site}`", highlight=False, soft_wrap=True)
