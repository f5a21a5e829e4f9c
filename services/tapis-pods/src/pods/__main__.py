"""Command line: `pods serve | reconcile | migrate`."""

from __future__ import annotations

from pods.migrations import MIGRATIONS
from pods.settings import DatabaseSettings, ReconcileSettings, Settings
from strata_http import commands
from strata_http.commands import read_settings

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API."""
    from pods.app import create_app  # late: the other commands need no routes

    settings = read_settings(Settings)
    commands.serve(create_app(settings), settings)


@cli.command()
def reconcile() -> None:
    """Make Kubernetes run what the database says; of several processes, one is active."""
    from pods.loop import run

    run(read_settings(ReconcileSettings))


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    commands.migrate(read_settings(DatabaseSettings), MIGRATIONS)


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
