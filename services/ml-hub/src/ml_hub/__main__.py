"""Command line: `ml-hub serve | migrate | load`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ml_hub.load import load as load_records
from ml_hub.migrations import MIGRATIONS
from ml_hub.records import Record
from ml_hub.settings import DatabaseSettings, Settings
from ml_hub.sources import CatalogueError, read_file, read_hub
from strata_http import commands, server
from strata_http.commands import database_errors, fail, read_settings
from strata_http.database import create_command_engine

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API."""
    from ml_hub.app import create_app  # noqa: PLC0415  # the other commands need no routes

    settings = read_settings(Settings)
    server.serve(create_app(settings), settings)


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    commands.migrate(read_settings(DatabaseSettings), MIGRATIONS)


@cli.command()
def load(
    file: Annotated[Path | None, typer.Option(help="JSON file with models and datasets.")] = None,
    hub: Annotated[bool, typer.Option("--hub", help="Read from the Hugging Face Hub.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="With --hub: how many of the most downloaded models, and datasets.")
    ] = 10_000,
    endpoint: Annotated[str | None, typer.Option(envvar="HF_ENDPOINT", help="With --hub: URL of another hub.")] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what the source does not hold.")] = False,
) -> None:
    """Insert new models and datasets and update changed ones; prints the counts of each as JSON."""
    if (file is None) == (not hub):
        raise fail("name one source: --file FILE or --hub")
    settings = read_settings(DatabaseSettings)
    try:
        with database_errors(settings):
            records: Mapping[str, Iterable[Record]] = read_file(file) if file is not None else read_hub(limit, endpoint)
            counts = load_records(create_command_engine(settings), records, prune=prune)
    except CatalogueError as error:
        raise fail(str(error)) from error
    print(json.dumps({kind: asdict(done) for kind, done in counts.items()}))


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
