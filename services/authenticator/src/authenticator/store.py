"""Statements on the table of personal access tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from authenticator import personal_tokens
from authenticator.personal_tokens import PersonalToken
from authenticator.tables import personal_access_tokens as tokens

MAXIMUM = 20
"""Tokens of one user."""


class CannotCreate(Exception):
    """A token cannot be created; the message gives the reason and goes to the user."""


@dataclass(frozen=True)
class Owner:
    """Whose token it is.

    Args:
        subject: the claim `sub`, which does not change.
        username: at the time of creation; logins with the token are by this name.
    """

    subject: str
    username: str


async def list_of(connection: AsyncConnection, subject: str) -> Sequence[Row[*tuple[Any, ...]]]:
    """The tokens of a user that have not expired, the oldest first; the others are deleted."""
    await _delete_expired(connection, subject)
    columns = (tokens.c.id, tokens.c.name, tokens.c.created, tokens.c.expires, tokens.c.last_used)
    result = await connection.execute(
        select(*columns).where(tokens.c.subject == subject).order_by(tokens.c.created, tokens.c.id)
    )
    return result.all()


async def check_new(connection: AsyncConnection, subject: str, name: str) -> None:
    """Checks that a user may have one more token, with this name.

    Raises:
        CannotCreate: the name is in use, or the user has MAXIMUM tokens.
    """
    names = [row.name for row in await list_of(connection, subject)]
    if name in names:
        raise CannotCreate(f"you have a token named {name!r}: choose another name, or revoke that token first")
    if len(names) >= MAXIMUM:
        raise CannotCreate(f"you have {MAXIMUM} tokens, the most that are possible: revoke one first")


async def create(
    connection: AsyncConnection, owner: Owner, name: str, days: int, refresh_token: str
) -> tuple[PersonalToken, datetime]:
    """A new token, which nothing shows again, and the time at which it expires.

    Args:
        connection: in a transaction.
        owner: whose it is.
        name: unique among the owner's.
        days: until it expires.
        refresh_token: of the issuer; stored encrypted.

    Raises:
        CannotCreate: as check_new.
    """
    # two windows of one user must not both find the last free place
    await connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:subject, 0))"), vars(owner))
    await check_new(connection, owner.subject, name)
    made = personal_tokens.generate()
    now: datetime = (await connection.execute(select(func.now()))).scalar_one()
    expires = now + timedelta(days=days)
    row = {"id": made.id, "name": name, "expires": expires, "sealed": made.seal(refresh_token, expires)}
    await connection.execute(insert(tokens).values(**row, **vars(owner)))
    return made, expires


async def lock(connection: AsyncConnection, token_id: str) -> Row[*tuple[Any, ...]] | None:
    """The row of a token that has not expired, for this transaction alone; None without one."""
    result = await connection.execute(
        select(tokens).where(tokens.c.id == token_id, tokens.c.expires > func.now()).with_for_update()
    )
    return result.one_or_none()


async def record_use(connection: AsyncConnection, token_id: str, sealed: str | None) -> None:
    """Stores the time, and what the issuer answered with.

    Args:
        connection: that locked the row.
        token_id: of the row.
        sealed: the next refresh token, encrypted; None where the one before is still good.
    """
    values = {"last_used": func.now()} | ({} if sealed is None else {"sealed": sealed})
    await connection.execute(update(tokens).where(tokens.c.id == token_id).values(values))


async def remove(connection: AsyncConnection, token_id: str, subject: str) -> bool:
    """Deletes a token of a user; whether the user had it."""
    condition = (tokens.c.id == token_id) & (tokens.c.subject == subject)
    return (await connection.execute(delete(tokens).where(condition))).rowcount > 0


async def _delete_expired(connection: AsyncConnection, subject: str) -> None:
    await connection.execute(delete(tokens).where(tokens.c.subject == subject, tokens.c.expires <= func.now()))
