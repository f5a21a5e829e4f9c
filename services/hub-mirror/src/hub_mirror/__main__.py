"""Command line: `hub-mirror serve | migrate`."""

from __future__ import annotations

from hub_mirror.migrations import MIGRATIONS
from hub_mirror.settings import DatabaseSettings, Settings
from strata_http import commands, server

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API, at one port with and at one without tokens of the site."""
    from hub_mirror.app import create_app  # late: `migrate` needs no routes

    settings = commands.read_settings(Settings)
    server.serve(create_app(settings), settings, settings.inside_port)


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    commands.migrate(commands.read_settings(DatabaseSettings), MIGRATIONS)


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
