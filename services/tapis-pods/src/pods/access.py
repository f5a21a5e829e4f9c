"""Who may do what with a pod."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, HTTPException
from sqlalchemy import RowMapping, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.tables import permissions, pods
from strata_http.bearer import require_token
from strata_http.tokens import Caller

Level = Literal["READ", "USER", "ADMIN"]
LEVELS: tuple[Level, ...] = ("READ", "USER", "ADMIN")
Person = Annotated[Caller, Depends(require_token)]


async def find(
    connection: AsyncConnection, caller: Caller, pod_id: str, level: Level, *, change: bool = False
) -> RowMapping:
    """The pod, if the caller is a member of its tenant now and has at least the level.

    Args:
        connection: with `change`, in a transaction.
        caller: who asks.
        pod_id: of the pod.
        level: that is needed.
        change: lock the row until the transaction ends.

    Raises:
        HTTPException: 404 where the caller may not even see it, 403 for too low a level.
    """
    query = select(*pods.columns).where(pods.c.pod_id == pod_id, pods.c.deleted.is_(False))
    row = (await connection.execute(query.with_for_update() if change else query)).mappings().one_or_none()
    found = row and await _level(connection, pod_id, caller.username)
    if row is None or not found or row["tenant"] not in caller.tenants:
        raise HTTPException(404, f"there is no pod {pod_id}, or you have no permission for it")
    if LEVELS.index(found) < LEVELS.index(level):
        raise HTTPException(403, f"pod {pod_id}: this needs the permission {level}, and you have {found}")
    return row


async def _level(connection: AsyncConnection, pod_id: str, username: str) -> Level | None:
    query = select(permissions.c.level).where(permissions.c.pod_id == pod_id, permissions.c.username == username)
    level: Level | None = (await connection.execute(query)).scalar_one_or_none()
    return level


async def granted(connection: AsyncConnection, pod_id: str) -> list[str]:
    """Permissions in Tapis' form, "user:LEVEL"."""
    query = select(permissions).where(permissions.c.pod_id == pod_id).order_by(permissions.c.username)
    return [f"{row.username}:{row.level}" for row in await connection.execute(query)]


async def grant(connection: AsyncConnection, pod_id: str, username: str, level: Level) -> None:
    """Sets a permission; the pod's row must be locked.

    Raises:
        HTTPException: 400 where no ADMIN would be left.
    """
    if level != "ADMIN":
        await _keep_an_admin(connection, pod_id, username)
    statement = insert(permissions).values(pod_id=pod_id, username=username, level=level)
    update = statement.on_conflict_do_update(
        index_elements=[permissions.c.pod_id, permissions.c.username], set_={"level": level}
    )
    await connection.execute(update)


async def revoke(connection: AsyncConnection, pod_id: str, username: str) -> None:
    """Removes a permission; the pod's row must be locked.

    Raises:
        HTTPException: 404 where there is none, 400 where no ADMIN would be left.
    """
    await _keep_an_admin(connection, pod_id, username)
    own = (permissions.c.pod_id == pod_id, permissions.c.username == username)
    if (await connection.execute(delete(permissions).where(*own))).rowcount == 0:
        raise HTTPException(404, f"pod {pod_id}: {username} has no permission")


async def _keep_an_admin(connection: AsyncConnection, pod_id: str, username: str) -> None:
    if await _level(connection, pod_id, username) != "ADMIN":
        return
    query = select(func.count()).where(permissions.c.pod_id == pod_id, permissions.c.level == "ADMIN")
    if (await connection.execute(query)).scalar_one() < 2:
        raise HTTPException(400, f"pod {pod_id}: {username} is its last ADMIN; give another user ADMIN first")
