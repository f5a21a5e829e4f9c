"""Command line: `hub-mirror serve | migrate | relocate | check`."""

from __future__ import annotations

from typing import Annotated

import typer

from hub_mirror import consistency, relocation
from hub_mirror.migrations import MIGRATIONS
from hub_mirror.settings import DatabaseSettings, FileSettings, Settings
from strata_http import commands, server
from strata_http.database import create_command_engine

cli = commands.create_cli(__doc__)


@cli.command()
def serve() -> None:
    """Serve the API, at one port with and at one without tokens of the site."""
    from hub_mirror.app import create_app  # noqa: PLC0415  # the other commands need no routes

    settings = commands.read_settings(Settings)
    server.serve(create_app(settings), settings, settings.inside_port)


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    commands.migrate(commands.read_settings(DatabaseSettings), MIGRATIONS)


@cli.command()
def relocate() -> None:
    """Move the published files of earlier releases, which were beside the cache; a second run changes nothing."""
    settings = commands.read_settings(FileSettings)
    print(f"moved {relocation.relocate(settings.storage_path, settings.published_path)} files")


@cli.command()
def check(
    delete_unused: Annotated[
        bool, typer.Option("--delete-unused", help="Delete files older than a day that no repository names.")
    ] = False,
) -> None:
    """Compare the repositories of the database with the published files. Exits 1 if files are missing."""
    settings = commands.read_settings(FileSettings)
    with commands.database_errors(settings):
        report = consistency.compare(create_command_engine(settings), settings.published_path)
    for line in report.missing:
        print(line)
    size = sum(path.stat().st_size for path in report.unused)
    print(f"{len(report.missing)} files are missing; {len(report.unused)} files ({size} bytes) are of no repository")
    if delete_unused:
        if not report.repositories:
            raise commands.fail("the database names no repository: restore it before you delete files")
        print(f"deleted {consistency.delete(report.unused)} files")
    if report.missing:
        raise typer.Exit(1)


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
