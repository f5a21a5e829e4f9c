"""Removes records because of their age, once a day; a second run removes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from accounting import store
from accounting.store import Connection

SOURCE = "retention"
"""In the table collection."""
EVERY = timedelta(days=1)


@dataclass(frozen=True)
class Retention:
    """For how long records are kept, in months; the current one is not counted.

    Args:
        usage: usage of pods and models by the hour, and energy of cards.
        records: pods, jobs, instances and nodes, from their end on.
        measurements: those of users; None: for ever.
    """

    usage: int
    records: int
    measurements: int | None = None


def apply(connection: Connection, retention: Retention, now: datetime) -> dict[str, int]:
    """Removes what is older, in one transaction, unless that was done within the last day.

    Args:
        connection: of the database's owner.
        retention: of the site.
        now: the current time. The database's counts if it is earlier: one wrong clock must not remove what is not old.

    Returns:
        Kind of records to how many were removed; empty if it was not yet time.
    """
    row = connection.execute("SELECT now()").fetchone()
    if row is not None and isinstance(row[0], datetime):
        now = min(now, row[0])
    last = store.seen(connection, SOURCE)
    if last is not None and last <= now < last + EVERY:
        return {}
    months = (retention.usage, retention.records, retention.measurements)
    with connection.transaction():
        removed = connection.execute(
            "SELECT * FROM remove_before(%s, %s, %s)",
            [None if count is None else months_before(now, count) for count in months],
        ).fetchall()
        store.write_seen(connection, SOURCE, now)
    return {str(record): int(str(rows)) for record, rows in removed}


def months_before(now: datetime, months: int) -> datetime:
    """The first moment (UTC) of the month so many months before the current one."""
    here = now.astimezone(UTC)
    year, month = divmod(here.year * 12 + here.month - 1 - months, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)
