"""Command line: `authenticator serve | migrate`."""

from __future__ import annotations

from authenticator.migrations import MIGRATIONS
from authenticator.settings import DatabaseSettings, Settings
from strata_http import commands, server

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API and the pages."""
    from authenticator.app import create_app  # noqa: PLC0415  # the other commands need no routes

    settings = commands.read_settings(Settings)
    server.serve(create_app(settings), settings)


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    commands.migrate(commands.read_settings(DatabaseSettings), MIGRATIONS)


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
