"""`strata doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from strata.cli.arguments import JsonOption, complete_site
from strata.cli.doctor_report import run_doctor


def doctor(
    site: Annotated[str | None, typer.Argument(metavar="[SITE]", autocompletion=complete_site)] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the deployment host and list the pinned tools and, with SITE, orphaned resources. Exits 1 on a problem."""
    if not run_doctor(site, as_json=as_json):
        raise typer.Exit(1)
