"""Actions of the API that a page tries: what they refuse is shown on the page, and nothing of them is kept."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from fastapi import HTTPException
from sqlalchemy.ext.asyncio import AsyncConnection

SHOWN = frozenset({400, 403, 409})
"""Refusals that the user can do something about; others have a page of their own."""


@dataclass(frozen=True)
class Refusal:
    """Why the API refused an action.

    Args:
        status: of HTTP, which the page has too, so that the audit record is right.
        messages: what is wrong.
    """

    status: int
    messages: tuple[str, ...]


async def attempt(connection: AsyncConnection, action: Awaitable[object]) -> Refusal | None:
    """Waits for an action; None where it was done.

    Args:
        connection: of the action, in a transaction, which stays usable.
        action: of the API.

    Raises:
        HTTPException: a refusal of another kind, such as 404.
    """
    try:
        async with connection.begin_nested():
            await action
    except HTTPException as error:
        if error.status_code not in SHOWN:
            raise
        return Refusal(error.status_code, (str(error.detail),))
    return None
