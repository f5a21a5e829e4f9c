"""What the routes share: the connection, a page's limit and cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ml_hub.queries import InvalidCursor, Position

MAXIMUM_LIMIT = 100


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


Text = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_no_nul)]
"""A name or a search as callers give it."""


async def _connection(request: Request) -> AsyncIterator[AsyncConnection]:
    engine: AsyncEngine = request.app.state.engine
    async with engine.connect() as connection:
        yield connection


Connection = Annotated[AsyncConnection, Depends(_connection, scope="function")]


@dataclass(frozen=True)
class Page:
    """Which part of a list."""

    limit: int
    after: Position | None


def _page(
    limit: Annotated[int, Query(ge=1, le=MAXIMUM_LIMIT, description="Entries per page.")] = MAXIMUM_LIMIT,
    cursor: Annotated[
        str | None, Query(max_length=1024, description="`next_cursor` of the page before; unset: the first page.")
    ] = None,
) -> Page:
    if cursor is None:
        return Page(limit, None)
    try:
        return Page(limit, Position.decode(cursor))
    except InvalidCursor as error:
        raise RequestValidationError(
            [{"loc": ("query", "cursor"), "msg": str(error), "type": "value_error"}]
        ) from error


PageQuery = Annotated[Page, Depends(_page)]


class Response(BaseModel):
    """Base of all responses; built from database rows."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())
