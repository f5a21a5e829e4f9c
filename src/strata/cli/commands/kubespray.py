"""`strata kubespray`."""

from __future__ import annotations

from rich.console import Console

from strata.cli.arguments import (
    SiteArgument,
    site_file,
)
from strata.engine.run_lock import site_lock
from strata.installers.kubespray.configuration import inventory_directory
from strata.installers.kubespray.run import prepare
from strata.site.context import SiteContext
from strata.site.secrets.provided import check_secrets


def kubespray(site: SiteArgument) -> None:
    """Write the Kubespray inventory of a site, and show which playbooks `strata up` would run."""
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
