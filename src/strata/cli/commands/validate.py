"""`strata validate`."""

from __future__ import annotations

import typer
from rich.console import Console

from strata.cli.arguments import JsonOption, SiteArgument, site_file
from strata.cli.output import print_json
from strata.platform.releases import check_values
from strata.site.secrets.provided import check_secrets
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError


def validate(site: SiteArgument, as_json: JsonOption = False) -> None:
    """Report all errors in the site file with line, key, value and fix."""
    file = site_file(site)
    try:
        loaded = load_site(file)
    except SiteError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": [p.__dict__ | {"file": str(p.file)} for p in error.problems]})
        raise typer.Exit(2) from None
    check_secrets(loaded)
    check_values(loaded, file)
    if as_json:
        print_json({"valid": True, "site": loaded.name, "file": str(file)})
    else:
        Console().print(f"[green]✓[/] {file}: site {loaded.name} is valid", highlight=False)
