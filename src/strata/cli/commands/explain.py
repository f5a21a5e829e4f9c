"""`strata explain`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import JsonOption, SiteArgument, site_file
from strata.cli.output import print_json
from strata.site_file.explain import explain as explain_key


def explain(
    site: SiteArgument,
    key: Annotated[str, typer.Argument(metavar="KEY.PATH", help="Key path, for example cloud.flavors.0.memory.")],
    as_json: JsonOption = False,
) -> None:
    """Show a key's value, where it is set, and its meaning."""
    explanation = explain_key(site_file(site), key)
    if as_json:
        print_json(explanation.model_dump(mode="json"))
    else:
        Console().print(explanation.text(), markup=False, highlight=False, soft_wrap=True)
