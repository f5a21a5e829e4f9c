"""Who may do what with an object that its creator may share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, HTTPException
from sqlalchemy import ColumnElement, RowMapping, Select, Table, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from pods import tables
from strata_http.bearer import require_token
from strata_http.tokens import Caller

Level = Literal["READ", "USER", "ADMIN"]
LEVELS: tuple[Level, ...] = ("READ", "USER", "ADMIN")
Person = Annotated[Caller, Depends(require_token)]


@dataclass(frozen=True)
class Shared:
    """A kind of object with permissions.

    Args:
        kind: in one word; `<kind>_id` is the key of both tables.
        table: of the objects, with the column `tenant` and, where they end later than their deletion, `deleted`.
        permissions: table of who may do what, with `username` and `level`.
    """

    kind: str
    table: Table
    permissions: Table

    async def find(
        self, connection: AsyncConnection, caller: Caller, name: str, level: Level, *, change: bool = False
    ) -> RowMapping:
        """The object, if the caller is a member of its tenant now and has at least the level.

        Args:
            connection: with `change`, in a transaction.
            caller: who asks.
            name: of the object.
            level: that is needed.
            change: lock the row until the transaction ends.

        Raises:
            HTTPException: 404 where the caller may not even see it, 403 for too low a level.
        """
        query = select(*self.table.columns).where(self._key(self.table) == name, *self._present())
        row = (await connection.execute(query.with_for_update() if change else query)).mappings().one_or_none()
        granted = row and await self.level(connection, name, caller.username)
        if row is None or not granted or row["tenant"] not in caller.tenants:
            raise HTTPException(404, f"there is no {self.kind} {name}, or you have no permission for it")
        if LEVELS.index(granted) < LEVELS.index(level):
            raise HTTPException(403, f"{self.kind} {name}: this needs the permission {level}, and you have {granted}")
        return row

    def visible(self, caller: Caller) -> Select[Any]:
        """Query of the objects that the caller has a permission for, by name."""
        key = self._key(self.table)
        return (
            select(*self.table.columns)
            .join(self.permissions, self._key(self.permissions) == key)
            .where(
                self.permissions.c.username == caller.username,
                self.table.c.tenant.in_(caller.tenants),
                *self._present(),
            )
            .order_by(key)
        )

    async def add(self, connection: AsyncConnection, name: str, owner: str, columns: Mapping[str, Any]) -> bool:
        """A new object with its first ADMIN; False where the name is in use."""
        key = self._key(self.table)
        statement = insert(self.table).values({key.name: name, **columns})
        created = await connection.execute(statement.on_conflict_do_nothing().returning(key))
        if created.scalar_one_or_none() is None:
            return False
        await self.grant(connection, name, owner, "ADMIN")
        return True

    async def granted(self, connection: AsyncConnection, name: str) -> list[str]:
        """Permissions in Tapis' form, "user:LEVEL"."""
        query = select(self.permissions).where(self._key(self.permissions) == name)
        rows = await connection.execute(query.order_by(self.permissions.c.username))
        return [f"{row.username}:{row.level}" for row in rows]

    async def grant(self, connection: AsyncConnection, name: str, username: str, level: Level) -> None:
        """Sets a permission; the object's row must be new or locked.

        Raises:
            HTTPException: 400 where no ADMIN would be left.
        """
        if level != "ADMIN":
            await self._keep_an_admin(connection, name, username)
        key = self._key(self.permissions)
        statement = insert(self.permissions).values({key: name, "username": username, "level": level})
        update = statement.on_conflict_do_update(
            index_elements=[key, self.permissions.c.username], set_={"level": level}
        )
        await connection.execute(update)

    async def revoke(self, connection: AsyncConnection, name: str, username: str) -> None:
        """Removes a permission; the object's row must be locked.

        Raises:
            HTTPException: 404 where there is none, 400 where no ADMIN would be left.
        """
        await self._keep_an_admin(connection, name, username)
        own = (self._key(self.permissions) == name, self.permissions.c.username == username)
        if (await connection.execute(delete(self.permissions).where(*own))).rowcount == 0:
            raise HTTPException(404, f"{self.kind} {name}: {username} has no permission")

    async def level(self, connection: AsyncConnection, name: str, username: str) -> Level | None:
        """Of a user, whatever their tenants; None without a permission."""
        own = (self._key(self.permissions) == name, self.permissions.c.username == username)
        level: Level | None = (
            await connection.execute(select(self.permissions.c.level).where(*own))
        ).scalar_one_or_none()
        return level

    def _key(self, table: Table) -> Any:
        return table.c[f"{self.kind}_id"]

    def _present(self) -> Sequence[ColumnElement[bool]]:
        return (self.table.c.deleted.is_(False),) if "deleted" in self.table.c else ()

    async def _keep_an_admin(self, connection: AsyncConnection, name: str, username: str) -> None:
        if await self.level(connection, name, username) != "ADMIN":
            return
        admins = (self._key(self.permissions) == name, self.permissions.c.level == "ADMIN")
        query = select(func.count()).select_from(self.permissions).where(*admins)
        if (await connection.execute(query)).scalar_one() < 2:
            raise HTTPException(400, f"{self.kind} {name}: {username} is its last ADMIN; give another user ADMIN first")


PODS = Shared("pod", tables.pods, tables.permissions)
VOLUMES = Shared("volume", tables.volumes, tables.volume_permissions)
SNAPSHOTS = Shared("snapshot", tables.snapshots, tables.snapshot_permissions)
