"""Lists in pages: a limit, and a cursor to the end of the last page."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.exceptions import RequestValidationError
from sqlalchemy import ColumnElement, RowMapping, Select, and_, or_
from sqlalchemy.ext.asyncio import AsyncConnection

MAXIMUM_LIMIT = 100


class InvalidCursor(ValueError):
    """The cursor was not made by this API."""


@dataclass(frozen=True)
class Position:
    """The last entry of a page: a number and a name, in that order of sorting."""

    number: int
    name: str

    def encode(self) -> str:
        """As opaque text for a URL."""
        return base64.urlsafe_b64encode(json.dumps([self.number, self.name]).encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Position:
        """Back from the text.

        Raises:
            InvalidCursor: it is something else.
        """
        try:
            number, name = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, TypeError) as error:
            raise InvalidCursor("is not a cursor of this API") from error
        valid = type(number) is int and 0 <= number < 2**63 and isinstance(name, str) and "\0" not in name
        if not valid or any("\ud800" <= c <= "\udfff" for c in name):
            raise InvalidCursor("is not a cursor of this API")
        return cls(number, name)

    def after(self, number: ColumnElement[int], name: ColumnElement[str]) -> ColumnElement[bool]:
        """What comes behind it, sorted by number (largest first), then name."""
        return or_(number < self.number, and_(number == self.number, name > self.name))


@dataclass(frozen=True)
class Page:
    """Which part of a list."""

    limit: int
    after: Position | None


async def fetch_page(
    connection: AsyncConnection, query: Select[Any], limit: int, number: str, name: str
) -> tuple[list[RowMapping], Position | None]:
    """Runs a query for one page.

    Args:
        connection: of the database.
        query: sorted by the columns of a `Position`, and behind that of the page before.
        limit: rows of the page.
        number: column of `Position.number`.
        name: column of `Position.name`.

    Returns:
        The rows, and where the next page begins (None: it was the last).
    """
    # one row more than requested shows whether there is a next page
    rows = list((await connection.execute(query.limit(limit + 1))).mappings().all())
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], Position(last[number], last[name])


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
