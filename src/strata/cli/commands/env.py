"""`strata env`."""

from __future__ import annotations

import shlex

from strata.access.site_environment import site_environment
from strata.cli.arguments import JsonOption, SiteArgument
from strata.cli.context import load_context
from strata.cli.output import print_json


def env(site: SiteArgument, as_json: JsonOption = False) -> None:
    """Print shell exports for the native tools. Usage: eval "$(strata env SITE)"."""
    variables = site_environment(load_context(site))
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
