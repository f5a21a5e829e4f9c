"""Commands that create folders in the repository."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import require_clone


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(name="new-role")(new_role)


def new_role(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the role, for example mail_relay.")],
) -> None:
    """Create a working role in ansible/roles/NAME: service, unit, variables from the site, molecule scenario."""
    from strata.scaffold import new_role as scaffold

    require_clone(f"new-role {name}")
    folder = scaffold.new_role(name)
    Console().print(
        f"wrote {folder}; next: edit it, then `python -m strata.models.generate`, and add {name} to a host's roles",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
