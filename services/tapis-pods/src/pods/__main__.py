"""Command line: `pods serve | files | reconcile | migrate`."""

from __future__ import annotations

import os

from pods.migrations import MIGRATIONS
from pods.settings import ApiSettings, DatabaseSettings, FilesSettings, ReconcileSettings
from strata_http import commands, server
from strata_http.commands import read_settings
from strata_http.database import create_command_engine

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API."""
    from pods.app import create_app  # noqa: PLC0415  # the other commands need no routes

    settings = read_settings(ApiSettings)
    server.serve(create_app(settings), settings)


@cli.command()
def files() -> None:
    """Serve volumes and snapshots, and do what their files need; of several processes, one does the latter."""
    from pods import files_worker  # noqa: PLC0415  # the other commands need no routes
    from pods.app import create_files_app  # noqa: PLC0415  # the other commands need no routes
    from pods.folders import UMASK  # noqa: PLC0415  # the other commands need no routes
    from pods.storage import Storage  # noqa: PLC0415  # the other commands need no routes

    settings = read_settings(FilesSettings)
    os.umask(UMASK)
    engine = create_command_engine(settings)
    files_worker.start(engine, Storage(settings.volumes_path), settings.tenants)
    server.serve(create_files_app(settings), settings)


@cli.command()
def reconcile() -> None:
    """Make Kubernetes run what is in the database; of several processes, one is active."""
    from pods.loop import run  # noqa: PLC0415  # the other commands need no routes

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
