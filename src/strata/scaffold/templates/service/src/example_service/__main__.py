"""Command line: `example-service serve | migrate`."""

from __future__ import annotations

from strata_http import commands, server

from example_service.migrations import MIGRATIONS
from example_service.settings import DatabaseSettings, Settings

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API."""
    from example_service.app import create_app  # noqa: PLC0415  # `migrate` needs no routes

    settings = commands.read_settings(Settings)
    server.serve(create_app(settings), settings)


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    commands.migrate(commands.read_settings(DatabaseSettings), MIGRATIONS)


if __name__ == "__main__":
    cli()
