"""`strata kubespray`."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import (
    SiteArgument,
    YesOption,
    site_file,
)
from strata.engine.run_lock import site_lock
from strata.installers.kubespray.configuration import inventory_directory
from strata.installers.kubespray.reset import reset as reset_cluster
from strata.installers.kubespray.reset import resettable
from strata.installers.kubespray.run import prepare
from strata.site.context import SiteContext
from strata.site.secrets.provided import check_secrets

ResetOption = Annotated[
    bool,
    typer.Option(
        "--reset",
        help="Remove Kubernetes, etcd and containerd from the nodes, with everything in the cluster. Databases and "
        "exported directories are kept; `strata up` installs a new cluster.",
    ),
]


def kubespray(site: SiteArgument, reset: ResetOption = False, yes: YesOption = False) -> None:
    """Write the Kubespray inventory of a site, and show which playbooks `strata up` would run."""
    context = SiteContext.load(site_file(site))
    check_secrets(context.site)
    if reset:
        _reset(context, yes=yes)
        return
    with site_lock(context.paths, "kubespray", context.site.state):
        runs = prepare(context)
    console = Console(soft_wrap=True)
    console.print(f"inventory: {inventory_directory(context.paths)}", highlight=False, markup=False)
    for run in runs:
        console.print(f"{run.playbook}.yml would run: {run.reason}", highlight=False, markup=False)
    if not runs:
        console.print("nothing to run: no change since the last success; `strata up` also compares the nodes")


def _reset(context: SiteContext, *, yes: bool) -> None:
    name, console = context.site.name, Console(stderr=True, soft_wrap=True)
    with site_lock(context.paths, "kubespray", context.site.state):
        nodes, left = resettable(context)
        if left:
            console.print(f"Not in the site file, and left as they are: {', '.join(left)}", highlight=False)
        console.print(
            f"Kubernetes, etcd and containerd are removed from {', '.join(host.name for host in nodes)}, with all "
            "namespaces, Secrets and jobs of the cluster. Databases and exported directories are kept, including the "
            "files of volumes, which a new cluster does not use.",
            highlight=False,
        )
        if not yes and not typer.confirm(f"Reset the cluster of site {name}?"):
            raise typer.Exit(1)
        begin = time.monotonic()
        with console.status("starting") as status:
            reset_cluster(context, status)
    console.print(
        f"the cluster of {name} is reset ({time.monotonic() - begin:.0f} s); `strata up {name}` installs a new one"
    )
