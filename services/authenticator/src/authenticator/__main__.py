"""Command line: `authenticator serve`."""

from __future__ import annotations

from authenticator.settings import Settings
from strata_http import commands

cli = commands.create_cli(__doc__)


@cli.callback()
def _commands() -> None:
    """A command is named even while there is one only, as at other services."""


@cli.command()
def serve() -> None:
    """Serve the API."""
    from authenticator.app import create_app  # late: wrong settings are reported without the routes

    settings = commands.read_settings(Settings)
    commands.serve(create_app(settings), settings)


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
