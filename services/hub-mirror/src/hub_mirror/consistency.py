"""Whether the database and the volume agree about the files that tenants publish, as after a restore of either."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select

from hub_mirror.schema import commits, objects, repositories

NEW_SECONDS = 24 * 3600
"""Files that are newer may be uploads whose transaction has not ended."""


@dataclass(frozen=True)
class Comparison:
    """What differs.

    Args:
        repositories: how many the database names.
        missing: a line for each file of a repository without its bytes.
        unused: files that no repository of their tenant names.
    """

    repositories: int
    missing: list[str]
    unused: list[Path]


def compare(engine: Engine, directory: Path) -> Comparison:
    """Compares names and sizes; contents are named by their hash.

    Args:
        engine: of the database.
        directory: of the published files.

    Raises:
        DBAPIError: the database refuses or does not respond.
        OSError: the directory cannot be read.
    """
    # the database first: what is published meanwhile is on the volume when that is read
    with engine.connect() as connection:
        rows = connection.execute(select(repositories).order_by(repositories.c.tenant, repositories.c.name)).all()
        named = {
            (row.tenant, row.sha256): row.size
            for row in connection.execute(
                select(repositories.c.tenant, objects.c.sha256, objects.c.size).join(
                    objects, objects.c.number == repositories.c.number
                )
            )
        }
        stored = {
            (path.parts[-3], path.name): path
            for path in directory.glob("*/*/*")
            if not path.name.startswith(".") and path.is_file()
        }
        gone = {key for key, size in named.items() if key not in stored or stored[key].stat().st_size != size}
        missing = [line for row in rows for line in _missing(connection, row, gone)]
    return Comparison(len(rows), missing, sorted(path for key, path in stored.items() if key not in named))


def _missing(connection: Connection, row: Any, gone: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for each missing file of a repository, with the last commit that has it."""
    left = {sha256 for tenant, sha256 in gone if tenant == row.tenant}
    if not left:
        return
    query = select(commits.c.sha, commits.c.files).where(commits.c.number == row.number)
    for commit in connection.execute(query.order_by(commits.c.created_at.desc())):
        files: Mapping[str, list[Any]] = commit.files
        for path, (sha256, size, *_) in sorted(files.items()):
            if sha256 in left:
                left.discard(sha256)
                yield f"{row.kind}/{row.tenant}/{row.name} at {commit.sha}: {path} ({size} bytes) is missing"


def delete(unused: Iterable[Path]) -> int:
    """Deletes files that are older than a day.

    Returns:
        How many.
    """
    old = [path for path in unused if path.stat().st_mtime < time.time() - NEW_SECONDS]
    for path in old:
        path.unlink()
    return len(old)
