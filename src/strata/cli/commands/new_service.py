"""`strata new-service`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import require_clone
from strata.scaffold.service import new_service as write
from strata.service_modules import service_key
from strata.site.paths import REPOSITORY


def new_service(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new service.")]) -> None:
    """Create the folder and the chart of a working platform service."""
    require_clone(f"new-service {name}")
    folders = ", ".join(f"{path.relative_to(REPOSITORY)}/" for path in write(name))
    Console().print(
        f"wrote {folders} and docs/reference/; next: `{service_key(name)}: {{}}` below platform.services of a site "
        "file, then `strata up`",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
