"""`strata new-role`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import require_clone
from strata.scaffold.role import new_role as write


def new_role(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the role, for example mail_relay.")],
) -> None:
    """Create a working role in ansible/roles/NAME: service, section of site.yaml, variables, checks, tests."""
    require_clone(f"new-role {name}")
    folder = write(name)
    Console().print(
        f"wrote {folder}; next: edit it, then `python -m strata.site_file.generate`; add {name} to a host's roles and "
        f"`{name}: {{}}` below hosts",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
