"""Configurations in the hub's database, and every change of them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    Index,
    Integer,
    MetaData,
    Table,
    Unicode,
    select,
)
from sqlalchemy.orm import Session

METADATA = MetaData()
CONFIGURATION = Table(
    "strata_configuration",
    METADATA,
    Column("tenant", Unicode(63), primary_key=True),
    Column("kind", Unicode(10), primary_key=True),
    Column("name", Unicode(255), primary_key=True),
    Column("value", JSON, nullable=False),
)
CHANGE = Table(
    "strata_configuration_change",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("by", Unicode(255), nullable=False),
    Column("tenant", Unicode(63), nullable=False),
    Column("kind", Unicode(10), nullable=False),
    Column("name", Unicode(255), nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Index("strata_configuration_change_tenant", "tenant", "id"),
)
MOST_CHANGES = 1000
Key = tuple[str, str]
"""Kind (`tenant`, `groups`, `users`) and name; the name of a tenant's own is empty."""


@cache
def _prepare(bind: Engine | Connection) -> None:
    """Creates the tables that are missing."""
    METADATA.create_all(bind)


class Store:
    """The configurations of one tenant.

    Args:
        db: the hub's session; every call ends its transaction before the hub runs anything else.
        tenant: name of the tenant.
    """

    def __init__(self, db: Session, tenant: str) -> None:
        self._db, self._tenant = db, tenant
        _prepare(db.get_bind())

    def all(self) -> dict[Key, dict[str, Any]]:
        """By kind and name."""
        columns = CONFIGURATION.c
        own = select(columns.kind, columns.name, columns.value).where(columns.tenant == self._tenant)
        rows = self._db.execute(own)
        return {(row.kind, row.name): row.value for row in rows}

    def write(self, key: Key, value: dict[str, Any] | None, by: str) -> dict[str, Any] | None:
        """Stores or, with None, deletes a configuration, with its record, in one transaction.

        Returns:
            The configuration before; None for none.
        """
        columns = CONFIGURATION.c
        where = (columns.tenant == self._tenant) & (columns.kind == key[0]) & (columns.name == key[1])
        before: dict[str, Any] | None = self._db.execute(
            select(columns.value).where(where).with_for_update()
        ).scalar_one_or_none()
        if before == value:
            self._db.commit()
            return before
        place = {"tenant": self._tenant, "kind": key[0], "name": key[1]}
        self._db.execute(CONFIGURATION.delete().where(where))
        if value is not None:
            self._db.execute(CONFIGURATION.insert().values(**place, value=value))
        self._db.execute(CHANGE.insert().values(**place, at=datetime.now(UTC), by=by, before=before, after=value))
        self._db.commit()
        return before

    def changes(self) -> list[dict[str, Any]]:
        """The last changes, newest first."""
        rows = self._db.execute(
            select(CHANGE).where(CHANGE.c.tenant == self._tenant).order_by(CHANGE.c.id.desc()).limit(MOST_CHANGES)
        )
        return [{**row, "at": row["at"].isoformat(timespec="seconds")} for row in rows.mappings()]
