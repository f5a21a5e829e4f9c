"""The command line."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from strata.cli.lazy_group import LazyGroup
from strata.errors import UserError
from strata.troubleshooting import link_for

app = typer.Typer(
    name="strata",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def strata() -> None:
    """Deploy a machine-learning platform from one file per site."""


def show_error(error: UserError) -> int:
    """Prints what is wrong, what would be right and where to read on; returns the exit status."""
    console = Console(stderr=True)
    console.print("[red]error:[/]", end=" ")
    console.print(error.message, markup=False, highlight=False, soft_wrap=True)
    if error.fix:
        console.print("[green]fix:[/]", end=" ")
        console.print(error.fix, markup=False, highlight=False, soft_wrap=True)
    if link := link_for(error):
        console.print(f"[dim]see:[/] {link}", highlight=False, soft_wrap=True)
    return int(getattr(error, "exit_status", 2))


def run(command: typer.Typer, interrupted: str = "interrupted; run the same command again to resume") -> None:
    """Runs a command line: a user's error ends with its message and status 2, a failed run with status 1.

    Args:
        command: the command line.
        interrupted: what Ctrl-C prints; the status is 130.
    """
    try:
        command()
    except UserError as error:
        sys.exit(show_error(error))
    except KeyboardInterrupt:
        Console(stderr=True).print(interrupted)
        sys.exit(130)


def main() -> None:
    """Entry point."""
    run(app)


if __name__ == "__main__":
    main()
