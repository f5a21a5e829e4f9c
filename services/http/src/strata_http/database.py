"""Connections to PostgreSQL: TLS with a verified name, the password read again for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from strata_http.errors import error_response
from strata_http.settings import DatabaseSettings

log = structlog.get_logger(__name__)


def _url(settings: DatabaseSettings) -> URL:
    return URL.create(
        "postgresql+psycopg",
        username=settings.database_user,
        host=settings.database_host,
        port=settings.database_port,
        database=settings.database_name,
    )


def _connect_arguments(settings: DatabaseSettings, *, statement_timeout: bool) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "sslmode": settings.database_tls,
        "connect_timeout": max(2, round(settings.database_timeout_seconds)),
        "application_name": settings.service(),
    }
    if settings.database_tls != "disable":
        arguments["sslrootcert"] = str(settings.database_ca_file)
    if statement_timeout:
        arguments["options"] = f"-c statement_timeout={round(settings.database_timeout_seconds * 1000)}"
    return arguments


def _read_password_per_connection(engine: Engine, settings: DatabaseSettings) -> None:
    @event.listens_for(engine, "do_connect")
    def _set_password(_dialect: object, _record: object, _arguments: object, parameters: dict[str, Any]) -> None:
        parameters["password"] = settings.read_database_password()


def create_service_engine(settings: DatabaseSettings) -> AsyncEngine:
    """The pool of the API; statements end at the timeout, dead connections are replaced before use."""
    engine = create_async_engine(
        _url(settings),
        connect_args=_connect_arguments(settings, statement_timeout=True),
        pool_size=settings.database_pool_size,
        max_overflow=0,
        pool_timeout=settings.database_timeout_seconds,
        pool_pre_ping=True,
        pool_recycle=1800,
        # every query is a read of its own: no BEGIN and ROLLBACK around it
        isolation_level="AUTOCOMMIT",
    )
    _read_password_per_connection(engine.sync_engine, settings)
    return engine


def create_command_engine(settings: DatabaseSettings) -> Engine:
    """Single connections without a statement timeout, for commands."""
    engine = create_engine(
        _url(settings), connect_args=_connect_arguments(settings, statement_timeout=False), poolclass=NullPool
    )
    _read_password_per_connection(engine, settings)
    return engine


async def _connection(request: Request) -> AsyncIterator[AsyncConnection]:
    engine: AsyncEngine = request.app.state.engine
    async with engine.connect() as connection:
        yield connection


Connection = Annotated[AsyncConnection, Depends(_connection, scope="function")]
"""Of a route: a connection of the pool, until the route returns."""


def transaction(request: Request) -> AbstractAsyncContextManager[AsyncConnection]:
    """Several changes that hold together or not at all, where only a part of a route needs the database."""
    engine: AsyncEngine = request.app.state.engine
    return engine.execution_options(isolation_level="READ COMMITTED").begin()


async def _transaction(request: Request) -> AsyncIterator[AsyncConnection]:
    async with transaction(request) as connection:
        yield connection


Transaction = Annotated[AsyncConnection, Depends(_transaction, scope="function")]
"""Of a route with several changes that hold together or not at all: committed before the response is sent."""


async def _database_down(request: Request, error: Exception) -> Response:
    log.error("database unavailable", error=type(error).__name__, reason=str(getattr(error, "orig", error)))
    detail = "the database does not respond; try again"
    return error_response(request, 503, detail, headers={"Retry-After": "5"})


def install(app: FastAPI) -> None:
    """Registers what is answered while the database is away."""
    for kind in (OperationalError, InterfaceError, PoolTimeout):
        app.add_exception_handler(kind, _database_down)
