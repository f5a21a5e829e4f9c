"""`strata destroy`."""

from __future__ import annotations

import time

import typer
from rich.console import Console

from strata.cli.arguments import (
    RemoveOption,
    SiteArgument,
    YesOption,
)
from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.changes.removal import left_on_machines, remove_state
from strata.engine.run_lock import site_lock
from strata.shared_state.session import erase
from strata.site.context import SiteContext
from strata.site.data_protection import require_named_volumes
from strata.site_file.inventories import find_site
from strata.stacks import pulumi
from strata.stacks.pulumi import Program, stack_settings_file


def destroy(site: SiteArgument, yes: YesOption = False, remove: RemoveOption = None) -> None:
    """Remove a site's instances, networks, data and state. Hosts in hosts.machines are not changed."""
    context = SiteContext.load(find_site(site))
    require_named_volumes(context.site, context.paths, remove or ())
    console = Console(stderr=True)
    what = context.provider.contents
    if machines := left_on_machines(context.site):
        what += ", and the passwords and certificates of its machines"
        console.print(
            "Nothing is removed from these machines; they keep running, with services, data and the site's SSH key:",
            *machines,
            f"The SSH key to them stays in {context.paths.ssh_key}.",
            sep="\n  ",
            highlight=False,
            soft_wrap=True,
        )
    if not yes and not typer.confirm(f"Remove {what} of site {context.site.name}?"):
        raise typer.Exit(1)
    begin = time.monotonic()
    with site_lock(context.paths, "destroy", context.site.state), console.status("removing") as status:
        if not lifecycle_of(context).remove_cloud(status) and context.site.cloud is not None:
            pulumi.destroy("cloud", context.site, context.paths, status, site_file=context.site_file)
    if context.site.state is not None:
        erase(context.paths, context.site.state)
    programs: tuple[Program, ...] = ("cloud", "platform")
    for program in programs:
        stack_settings_file(program, context.site.name).unlink(missing_ok=True)
    remove_state(context.paths, keep_ssh_key=bool(machines))
    console.print(f"{context.site.name} is gone ({time.monotonic() - begin:.1f} s); caches stay in the cache directory")
