"""Writes records into the table; a second run with the same records changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Boolean, Connection, Engine, Text, all_, delete, func, literal, literal_column, or_, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from ml_hub.records import ModelRecord
from ml_hub.tables import models
from strata_http import migrations

BATCH = 500
"""Rows per statement; with 14 values each well below PostgreSQL's limit of 65,535."""


@dataclass(frozen=True)
class LoadCounts:
    """What a load did, in rows; `total` is what the table holds after it."""

    inserted: int
    updated: int
    unchanged: int
    removed: int
    total: int


def _batches(records: Iterable[ModelRecord]) -> Iterator[list[ModelRecord]]:
    iterator = iter(records)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _upsert(connection: Connection, batch: list[ModelRecord]) -> tuple[int, int]:
    """Rows inserted and rows updated."""
    statement = insert(models).values([record.row() for record in batch])
    written = [c.name for c in models.columns if c.computed is None and c.name not in ("id", "loaded_at")]
    new = statement.excluded
    changed = or_(*(models.c[name].is_distinct_from(new[name]) for name in written))
    upsert = statement.on_conflict_do_update(
        index_elements=[models.c.id],
        set_={name: new[name] for name in written} | {"loaded_at": func.now()},
        where=changed,
    )
    # xmax is 0 only in a row version that was inserted
    rows = connection.execute(upsert.returning(literal_column("(xmax = 0)", Boolean))).scalars().all()
    inserted = sum(rows)
    return inserted, len(rows) - inserted


def load(engine: Engine, records: Iterable[ModelRecord], *, prune: bool = False) -> LoadCounts:
    """Inserts new records and updates changed ones, in one transaction.

    Args:
        engine: of `create_command_engine`.
        records: with unique ids.
        prune: remove every model that is not among the records.
    """
    inserted = updated = seen = removed = 0
    kept: list[str] = []
    with engine.begin() as connection:
        migrations.lock(connection)
        for batch in _batches(records):
            new, changed = _upsert(connection, batch)
            inserted, updated, seen = inserted + new, updated + changed, seen + len(batch)
            if prune:
                kept += [record.id for record in batch]
        if prune:
            removed = connection.execute(delete(models).where(models.c.id != all_(literal(kept, ARRAY(Text))))).rowcount
        total = connection.execute(select(func.count()).select_from(models)).scalar_one()
    return LoadCounts(inserted, updated, seen - inserted - updated, removed, total)
