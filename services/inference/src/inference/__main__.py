"""Command line: `inference serve`."""

from __future__ import annotations

from inference.settings import Settings
from strata_http import commands, server

cli = commands.create_cli(__doc__)


@cli.callback()
def _commands() -> None:
    """Keeps `serve` a command by name, though it is the only one."""


@cli.command()
def serve() -> None:
    """Serve the API, and start and stop model servers."""
    from inference.app import create_app  # noqa: PLC0415  # wrong settings are reported at once

    settings = commands.read_settings(Settings)
    server.serve(create_app(settings), settings)


if __name__ == "__main__":
    cli()
