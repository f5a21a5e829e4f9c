"""Lists of secrets and certificates, and the names that commands take from them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from strata.cli.output import print_json

ALL = "all"
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help=f"Names as listed, or `{ALL}`.")]


def show_entries(entries: list[Any], as_json: bool, *columns: str) -> None:
    """Prints a table.

    Args:
        entries: dataclasses.
        as_json: prints all fields for programs instead.
        columns: fields of the table.
    """
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    table = Table(*(column.replace("_", " ") for column in columns), box=None)
    for entry in entries:
        table.add_row(*(str(getattr(entry, column)) for column in columns))
    Console().print(table)
