"""Versions of the schema: numbered SQL files, applied in one transaction."""

from __future__ import annotations

from importlib.resources import files

import psycopg

LOCK = 0x6163636F
"""Key of the advisory lock that lets one migration run at a time ("acco")."""


def versions() -> dict[int, str]:
    """Number and SQL of each version, from the first on."""
    migrations = (file for file in files(__package__).iterdir() if file.name.endswith(".sql"))
    return {
        int(file.name.partition("_")[0]): file.read_text() for file in sorted(migrations, key=lambda file: file.name)
    }


def migrate(connection: psycopg.Connection[tuple[object, ...]], to: int | None = None) -> tuple[int, int]:
    """Brings the schema to a version, in one transaction; nothing happens when it has that or a later one.

    Args:
        connection: of the database's owner, outside of a transaction.
        to: number of the version; the newest by default.

    Returns:
        The version found and the version left; 0 is an empty database.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_version "
            "(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
        before = after = int(str(row[0])) if row else 0
        for version, sql in versions().items():
            if before < version and (to is None or version <= to):
                connection.execute(sql.encode())
                connection.execute("INSERT INTO schema_version (version) VALUES (%s)", (version,))
                after = version
    return before, after
