"""Commands that all services have, and how they refuse: one line per error, status 2."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from strata_http import logs
from strata_http.database import create_command_engine
from strata_http.migrations import Migrations
from strata_http.settings import CommonSettings, DatabaseSettings

AnySettings = TypeVar("AnySettings", bound=CommonSettings)


def create_cli(description: str | None) -> typer.Typer:
    """A command line without completion, whose tracebacks show no values of variables."""
    return typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=description)


def fail(message: str) -> typer.Exit:
    """Prints an error; returns what to raise."""
    print(f"error: {message}", file=sys.stderr)
    return typer.Exit(2)


def read_settings(kind: type[AnySettings]) -> AnySettings:
    """The settings of the environment; logs follow them from now on.

    Raises:
        typer.Exit: values are missing or wrong; all of them are printed.
    """
    try:
        settings = kind()
    except ValidationError as error:
        raise fail("\n       ".join(kind.messages(error))) from None
    logs.configure(settings.log_level)
    return settings


@contextmanager
def database_errors(settings: DatabaseSettings) -> Iterator[None]:
    """Turns an error of the database into one line that names it.

    Raises:
        typer.Exit: there was one.
    """
    try:
        yield
    except DBAPIError as error:
        where = f"{settings.database_user}@{settings.database_host}:{settings.database_port}/{settings.database_name}"
        raise fail(f"PostgreSQL {where}: {str(error.orig).strip()}") from error


def migrate(settings: DatabaseSettings, migrations: Migrations) -> None:
    """Brings the schema to this release's version; prints it as JSON.

    Raises:
        typer.Exit: the database refused or does not respond.
    """
    with database_errors(settings):
        before, after = migrations.upgrade(create_command_engine(settings))
    print(json.dumps({"schema": after, "changed": before != after}))
