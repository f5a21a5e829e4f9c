"""`strata down`."""

from __future__ import annotations

import time

from rich.console import Console

from strata.cli.arguments import (
    SiteArgument,
    site_file,
)
from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.run_lock import site_lock
from strata.site.context import SiteContext


def down(site: SiteArgument) -> None:
    """Stop the containers and processes of a lab. Data is kept; `strata up` starts the lab again."""
    context = SiteContext.load(site_file(site))
    begin = time.monotonic()
    console = Console(stderr=True)
    with site_lock(context.paths, "down", context.site.state), console.status("stopping") as status:
        lifecycle_of(context).stop(status)
    console.print(
        f"{context.site.name} is stopped ({time.monotonic() - begin:.1f} s); `strata up {site}` starts it again"
    )
