"""`strata kubeconfig`."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

from strata.access.login import user_kubeconfig
from strata.cli.arguments import SiteArgument, complete_tenant
from strata.cli.context import load_context


def kubeconfig(
    site: SiteArgument,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            metavar="TENANT",
            help="Tenant whose namespace is the default of kubectl.",
            show_default="the site's only one",
            autocompletion=complete_tenant,
        ),
    ] = None,
    device: Annotated[
        bool, typer.Option("--device", help="For computers without a browser: log in with a code on another device.")
    ] = False,
) -> None:
    """Print a kubeconfig that logs users in at the site's issuer. It contains no credentials."""
    print(yaml.safe_dump(user_kubeconfig(load_context(site), tenant, device=device), sort_keys=False), end="")
