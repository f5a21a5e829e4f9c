"""Writes what was seen; the same again changes no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import psycopg

from accounting.pods import PodRow, Resources

Connection = psycopg.Connection[tuple[object, ...]]

KUBERNETES = "kubernetes"
"""The source in the table collection."""

# an end that was only estimated gives way to what Kubernetes reports; a known one stays
_UPSERT_POD = """
INSERT INTO pod (uid, tenant, username, kind, namespace, name, node, cpus, memory_bytes, cards, card, starts, ends)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (uid) DO UPDATE SET
    cpus = EXCLUDED.cpus,
    memory_bytes = EXCLUDED.memory_bytes,
    ends = CASE WHEN pod.end_estimated THEN EXCLUDED.ends ELSE coalesce(pod.ends, EXCLUDED.ends) END,
    end_estimated = false
WHERE (pod.ends IS NULL AND EXCLUDED.ends IS NOT NULL)
    OR pod.end_estimated
    OR (pod.ends IS NULL AND (pod.cpus, pod.memory_bytes) IS DISTINCT FROM (EXCLUDED.cpus, EXCLUDED.memory_bytes))
"""

_CLOSE_MISSING = """
UPDATE pod SET ends = greatest(starts, coalesce((SELECT at FROM collection WHERE source = %s), starts)),
    end_estimated = true
WHERE ends IS NULL AND uid <> ALL (%s::uuid[])
"""

_SEEN = """
INSERT INTO collection (source, at) VALUES (%s, %s)
ON CONFLICT (source) DO UPDATE SET at = EXCLUDED.at WHERE collection.at < EXCLUDED.at
"""


def write_pods(connection: Connection, pods: Iterable[PodRow]) -> None:
    """Adds or completes pods."""
    rows = [_values(pod) for pod in pods]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(_UPSERT_POD, rows)


def write_all_pods(connection: Connection, pods: Iterable[PodRow], at: datetime) -> None:
    """Adds or completes all pods that Kubernetes knows; those that it no longer knows ended since the last time.

    Args:
        connection: of the database's owner.
        pods: the whole list.
        at: when it was requested.
    """
    rows = [_values(pod) for pod in pods]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(_CLOSE_MISSING, (KUBERNETES, [row[0] for row in rows]))
        cursor.executemany(_UPSERT_POD, rows)
        cursor.execute(_SEEN, (KUBERNETES, at))


def write_seen(connection: Connection, source: str, at: datetime) -> None:
    """Notes until when a source was read completely."""
    with connection.transaction():
        connection.execute(_SEEN, (source, at))


def seen(connection: Connection, source: str) -> datetime | None:
    """Until when a source was read completely; None before the first time."""
    row = connection.execute("SELECT at FROM collection WHERE source = %s", (source,)).fetchone()
    return row[0] if row and isinstance(row[0], datetime) else None


def write_nodes(connection: Connection, nodes: Mapping[str, Resources], at: datetime) -> None:
    """Opens a row for each node that is new or has another size, and closes those of nodes that are gone."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT name, cpus, memory_bytes, cards, card FROM node WHERE ends IS NULL")
        current = {str(name): tuple(size) for name, *size in cursor.fetchall()}
        desired = {name: (r.cpus, r.memory_bytes, r.cards, r.card) for name, r in nodes.items()}
        changed = {name for name in {*current, *desired} if current.get(name) != desired.get(name)}
        cursor.execute(
            "UPDATE node SET ends = greatest(starts, %s) WHERE ends IS NULL AND name = ANY (%s)", (at, list(changed))
        )
        # a node that changes twice at one time keeps the later size
        cursor.executemany(
            "INSERT INTO node (name, cpus, memory_bytes, cards, card, starts) VALUES (%s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (name, starts) DO UPDATE SET cpus = EXCLUDED.cpus, memory_bytes = EXCLUDED.memory_bytes, "
            "cards = EXCLUDED.cards, card = EXCLUDED.card, ends = NULL",
            [(name, *desired[name], at) for name in sorted(changed & desired.keys())],
        )


def _values(pod: PodRow) -> tuple[object, ...]:
    size = pod.resources
    whose = (pod.uid, pod.tenant, pod.username, pod.kind, pod.namespace, pod.name, pod.node)
    return (*whose, size.cpus, size.memory_bytes, size.cards, size.card, pod.starts, pod.ends)
