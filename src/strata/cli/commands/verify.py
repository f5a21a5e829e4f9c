"""`strata verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from strata.cli.arguments import JsonOption, SiteArgument
from strata.cli.context import load_context
from strata.cli.output import print_json
from strata.verify.run import as_json as to_json
from strata.verify.run import run_checks


def verify(
    site: SiteArgument,
    as_json: JsonOption = False,
    keyword: Annotated[
        str | None, typer.Option("-k", help="Run only checks whose names match, as with pytest -k.")
    ] = None,
) -> None:
    """Run end-to-end checks against a site. Exits 1 if a check fails."""
    verification = run_checks(load_context(site), quiet=as_json, keyword=keyword)
    if as_json:
        print_json(to_json(verification))
    if not verification.passed:
        raise typer.Exit(1)
