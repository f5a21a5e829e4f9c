"""Arguments that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.errors import UserError
from strata.layers import Layer
from strata.site.paths import INSTALLED
from strata.site_file.inventories import find_site, site_names
from strata.site_file.loader import load_site


def complete_site(incomplete: str) -> list[str]:
    """Names of the sites under inventories/, for shell completion."""
    return [name for name in site_names() if name.startswith(incomplete)]


def complete_tenant(typed: typer.Context, incomplete: str) -> list[str]:
    """Tenants of the site named before, for shell completion."""
    try:
        tenants = load_site(site_file(str(typed.params.get("site")))).platform.tenants
    except UserError:
        return []
    return [tenant.name for tenant in tenants if tenant.name.startswith(incomplete)]


SiteArgument = Annotated[
    str,
    typer.Argument(
        metavar="SITE", help="Name under inventories/, or the path of a site.yaml.", autocompletion=complete_site
    ),
]
LayerOption = Annotated[
    Layer | None,
    typer.Option("--layer", help="Only this layer; the layers below it must be deployed.", show_default="all"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")]

RemoveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        metavar="KIND/NAME",
        help="Approve the removal of an object with data, as named by `strata plan`. Repeatable.",
    ),
]
ReplaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--replace",
        metavar="INSTANCE",
        help="Approve the replacement, rebuild or resize of this instance, or accept the new host key of a machine "
        "that was replaced. Repeatable.",
    ),
]


def layers(layer: Layer | None) -> list[Layer]:
    """The chosen layer, or all of them from the lowest."""
    return [layer] if layer is not None else list(Layer)


def require_clone(command: str) -> None:
    """Refuses a command that writes into the repository.

    Args:
        command: as the operator typed it.

    Raises:
        UserError: Strata is installed, and its files are replaced by the next version.
    """
    if INSTALLED:
        raise UserError(
            f"`strata {command}` writes into the repository, and this Strata is installed",
            fix=f"run `uv run strata {command}` in a clone of the repository",
            see="the-installed-strata-has-no-lab-and-no-templates",
        )


def site_file(site: str) -> Path:
    """The file of a site given by name or path.

    Raises:
        UserError: there is none; names the ones there are.
    """
    return find_site(site)
