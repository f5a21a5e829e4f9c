"""Commands on what is secret: `strata secrets list|rotate`, `strata certificates list|renew`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from strata.cli.arguments import JsonOption, SiteArgument, load_context

ALL = "all"
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help=f"Names as listed, or `{ALL}`.")]

secrets_app = typer.Typer(help="List and rotate the site's secrets.", no_args_is_help=True)
certificates_app = typer.Typer(help="List and renew the site's certificates.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(secrets_app, name="secrets")
    app.add_typer(certificates_app, name="certificates")


def _show(entries: list[Any], as_json: bool, *columns: str) -> None:
    if as_json:
        json.dump([asdict(entry) for entry in entries], sys.stdout, indent=1)
        print()
        return
    table = Table(*(column.replace("_", " ") for column in columns), box=None)
    for entry in entries:
        table.add_row(*(str(getattr(entry, column)) for column in columns))
    Console().print(table)


@secrets_app.command("list")
def list_(site: SiteArgument, as_json: JsonOption = False) -> None:
    """List secrets, their source, and when a new value is applied. Values are never shown."""
    from strata.engine.rotation import list_secrets

    _show(list_secrets(load_context(site)), as_json, "name", "source", "applied")


@secrets_app.command()
def rotate(site: SiteArgument, names: NamesArgument) -> None:
    """Replace the values of secrets. Run `strata up` to apply them to all services."""
    from strata.engine import rotation
    from strata.engine.lock import site_lock

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


@certificates_app.command("list")
def certificates_list(site: SiteArgument, as_json: JsonOption = False) -> None:
    """List certificates with expiry date and days left. `strata up` renews those past two thirds of their lifetime."""
    from strata.engine.rotation import list_certificates

    _show(list_certificates(load_context(site)), as_json, "name", "ends", "days", "due")


@certificates_app.command()
def renew(site: SiteArgument, names: NamesArgument) -> None:
    """Reissue certificates: Kubernetes' (`kubernetes`) at once, others at the next `strata up`.

    Replacing the CA (`authority`) takes three runs of `strata up`: hosts trust the new CA, the new CA signs all
    certificates, hosts no longer trust the old CA. `all` does not include it.
    """
    from strata.engine import rotation
    from strata.engine.lock import site_lock

    context = load_context(site)
    console = Console(stderr=True)
    with site_lock(context.paths, "certificates renew", context.site.state), console.status("renewing") as status:
        if names == [ALL]:
            names = [entry.name for entry in rotation.list_certificates(context) if entry.name != rotation.AUTHORITY]
        later = rotation.renew(context, names, status)
    for name in names:
        said = "to be reissued by the next up" if name in later else "renewed"
        if name == rotation.AUTHORITY:
            said = f"with the next up {rotation.authority_phase(context)}"
        console.print(f"{name}: {said}", highlight=False, soft_wrap=True)
    if later:
        console.print(f"next: `strata up {site}`", highlight=False, soft_wrap=True)
