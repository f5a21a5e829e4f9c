"""Command line: `ml-hub serve | migrate | load`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from sqlalchemy.exc import DBAPIError

from ml_hub import logs
from ml_hub.database import create_command_engine
from ml_hub.load import load as load_records
from ml_hub.migrations import upgrade
from ml_hub.settings import DatabaseSettings, Settings
from ml_hub.sources import CatalogueError, read_file, read_hub

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

AnySettings = TypeVar("AnySettings", bound=BaseSettings)


def _fail(message: str) -> typer.Exit:
    print(f"error: {message}", file=sys.stderr)
    return typer.Exit(2)


def _read_settings(kind: type[AnySettings]) -> AnySettings:
    try:
        return kind()
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_input=False):
            variable = "ML_HUB_" + ".".join(str(p) for p in problem["loc"]).upper() if problem["loc"] else "settings"
            lines.append(f"{variable}: {problem['msg'].removeprefix('Value error, ')}")
        raise _fail("\n       ".join(lines)) from None


def _database_message(error: DBAPIError, settings: DatabaseSettings) -> str:
    where = f"{settings.database_user}@{settings.database_host}:{settings.database_port}/{settings.database_name}"
    return f"PostgreSQL {where}: {str(error.orig).strip()}"


@cli.command()
def serve() -> None:
    """Serve the API."""
    # imported late: the other commands need no web server
    import uvicorn

    from ml_hub.app import create_app

    settings = _read_settings(Settings)
    logs.configure(settings.log_level)
    uvicorn.run(
        create_app(settings),
        host=settings.bind_address,
        port=settings.bind_port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=20,
    )


@cli.command()
def migrate() -> None:
    """Bring the database schema to this release's version; a second run changes nothing."""
    settings = _read_settings(DatabaseSettings)
    logs.configure(settings.log_level)
    try:
        before, after = upgrade(create_command_engine(settings))
    except DBAPIError as error:
        raise _fail(_database_message(error, settings)) from error
    print(json.dumps({"schema": after, "changed": before != after}))


@cli.command()
def load(
    file: Annotated[Path | None, typer.Option(help="JSON file with a list of models.")] = None,
    hub: Annotated[bool, typer.Option("--hub", help="Read from the Hugging Face Hub.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="With --hub: how many of the most downloaded models.")] = 10_000,
    endpoint: Annotated[str | None, typer.Option(envvar="HF_ENDPOINT", help="With --hub: URL of another hub.")] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove models that the source does not hold.")] = False,
) -> None:
    """Insert new models and update changed ones; prints the counts as JSON."""
    if (file is None) == (not hub):
        raise _fail("name one source: --file FILE or --hub")
    settings = _read_settings(DatabaseSettings)
    logs.configure(settings.log_level)
    try:
        records = read_file(file) if file is not None else read_hub(limit, endpoint)
        counts = load_records(create_command_engine(settings), records, prune=prune)
    except CatalogueError as error:
        raise _fail(str(error)) from error
    except DBAPIError as error:
        raise _fail(_database_message(error, settings)) from error
    print(json.dumps(asdict(counts)))


def main() -> None:
    """Entry of the console script."""
    cli()


if __name__ == "__main__":
    main()
