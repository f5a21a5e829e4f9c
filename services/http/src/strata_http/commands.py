"""Commands that all services have, and how they refuse: one line per error, status 2."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from strata_http import logs
from strata_http.database import create_command_engine
from strata_http.migrations import Migrations
from strata_http.settings import CommonSettings, DatabaseSettings, HttpSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

AnySettings = TypeVar("AnySettings", bound=CommonSettings)


def create_cli(description: str | None) -> typer.Typer:
    """A command line without completion, whose tracebacks show no values of variables."""
    return typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=description)


def fail(message: str) -> typer.Exit:
    """Prints an error; returns what to raise."""
    print(f"error: {message}", file=sys.stderr)
    return typer.Exit(2)


def read_settings(kind: type[AnySettings]) -> AnySettings:
    """The settings of the environment; logs are written as they say from now on.

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


def serve(app: FastAPI, settings: HttpSettings, *ports: int) -> None:
    """Serves until the process is told to end.

    Args:
        app: the application; `scope["server"]` has the port that a request came to.
        settings: address and port.
        ports: TCP ports beside that of the settings.
    """
    import uvicorn  # late: the other commands need no web server

    configuration = uvicorn.Config(
        app,
        host=settings.bind_address,
        port=settings.bind_port,
        log_config=None,
        access_log=False,
        server_header=False,
        # it would believe X-Forwarded-For of any client on loopback; strata_http.addresses reads it
        proxy_headers=False,
        timeout_graceful_shutdown=20,
    )
    sockets = [_listen(settings.bind_address, port) for port in (settings.bind_port, *ports)] if ports else None
    uvicorn.Server(configuration).run(sockets)


def _listen(address: str, port: int) -> socket.socket:
    """A socket that accepts connections."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=2048)


def migrate(settings: DatabaseSettings, migrations: Migrations) -> None:
    """Brings the schema to this release's version; prints it as JSON.

    Raises:
        typer.Exit: the database refused or does not answer.
    """
    with database_errors(settings):
        before, after = migrations.upgrade(create_command_engine(settings))
    print(json.dumps({"schema": after, "changed": before != after}))
