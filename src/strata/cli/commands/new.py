"""`strata new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import complete_site, site_file
from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.run_lock import machine_lock
from strata.provider import provider_of
from strata.scaffold.site import new_site
from strata.site.context import SiteContext
from strata.site.paths import INSTALLED
from strata.site_file.inventories import inventories
from strata.site_file.loader import load_site


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
    with machine_lock("new"):  # two at once would choose the same networks
        old = site_file(like)
        context = SiteContext.load(old)
        lifecycle = lifecycle_of(context)
        networks = context.provider.local_networks().values()
        file = new_site(name, old, directory or inventories(), networks, lifecycle.networks_in_use())
        lifecycle.remember(file)
    console = Console()
    console.print(f"wrote {file}; next: edit it, then `strata validate {name}`", markup=False, highlight=False)
    for key, network in provider_of(load_site(file)).local_networks().items():
        console.print(f"  {key}: {network}", markup=False, highlight=False)
