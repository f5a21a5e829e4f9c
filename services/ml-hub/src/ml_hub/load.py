"""Writes records into the tables; a second run with the same records changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import (
    Boolean,
    Connection,
    Engine,
    Table,
    Text,
    all_,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert

from ml_hub.records import Record
from ml_hub.tables import CATALOGUE
from strata_http import migrations

BATCH = 500
"""Rows per statement; with 20 values each well below PostgreSQL's limit of 65,535."""


@dataclass(frozen=True)
class LoadCounts:
    """What a load did to one table, in rows; `total` is what the table holds after it."""

    inserted: int
    updated: int
    unchanged: int
    removed: int
    total: int


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    iterator = iter(records)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _upsert(connection: Connection, table: Table, batch: list[Record]) -> tuple[int, int]:
    """Rows inserted and rows updated."""
    statement = insert(table).values([record.row() for record in batch])
    written = [c.name for c in table.columns if c.computed is None and c.name not in ("id", "loaded_at")]
    new = statement.excluded
    changed = or_(*(table.c[name].is_distinct_from(new[name]) for name in written))
    upsert = statement.on_conflict_do_update(
        index_elements=[table.c.id],
        set_={name: new[name] for name in written} | {"loaded_at": func.now()},
        where=changed,
    )
    # xmax is 0 only in a row version that was inserted
    rows = connection.execute(upsert.returning(literal_column("(xmax = 0)", Boolean))).scalars().all()
    inserted = sum(rows)
    return inserted, len(rows) - inserted


def _load(connection: Connection, table: Table, records: Iterable[Record], *, prune: bool) -> LoadCounts:
    inserted = updated = seen = removed = 0
    kept: list[str] = []
    for batch in _batches(records):
        new, changed = _upsert(connection, table, batch)
        inserted, updated, seen = inserted + new, updated + changed, seen + len(batch)
        if prune:
            kept += [record.id for record in batch]
    if prune:
        removed = connection.execute(delete(table).where(table.c.id != all_(literal(kept, ARRAY(Text))))).rowcount
    total = connection.execute(select(func.count()).select_from(table)).scalar_one()
    return LoadCounts(inserted, updated, seen - inserted - updated, removed, total)


def load(engine: Engine, records: Mapping[str, Iterable[Record]], *, prune: bool = False) -> dict[str, LoadCounts]:
    """Inserts new records and updates changed ones, in one transaction.

    Args:
        engine: of `create_command_engine`.
        records: with unique ids, by the name of their table.
        prune: remove every row that is not among the records.

    Returns:
        What was done, by the name of the table.
    """
    with engine.begin() as connection:
        migrations.lock(connection)
        return {name: _load(connection, CATALOGUE[name], rows, prune=prune) for name, rows in records.items()}
