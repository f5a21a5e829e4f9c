"""List and renew the site's certificates."""

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
def certificates_list(site: SiteArgument, as_json: JsonOption = False) -> None:
    """List certificates with expiry date and days left. `strata up` renews those past two thirds of their lifetime."""
    show_entries(rotation.list_certificates(load_context(site)), as_json, "name", "ends", "days", "due")


@app.command()
def renew(site: SiteArgument, names: NamesArgument) -> None:
    """Reissue certificates: Kubernetes' (`kubernetes`) at once, others at the next `strata up`.

    Replacing the CA (`authority`) takes three runs of `strata up`: hosts trust the new CA, the new CA signs all
    certificates, hosts no longer trust the old CA. `all` does not include it.
    """
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
