"""Repositories of tenants: in the database with their commits, on the disk with their files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from hub_mirror.names import MAIN, Repository, is_commit
from hub_mirror.schema import commits, objects, repositories

UNCOMMITTED_HOURS = 24
"""How long an upload waits for its commit."""


@dataclass(frozen=True)
class File:
    """A file of a commit.

    Args:
        sha256: of its bytes.
        size: of its bytes.
        oid: git's id of a blob.
        large: whether it was uploaded by git LFS.
    """

    sha256: str
    size: int
    oid: str
    large: bool

    @property
    def etag(self) -> str:
        """As the Hub has it."""
        return self.sha256 if self.large else self.oid


@dataclass(frozen=True)
class Published:
    """A repository of a tenant.

    Args:
        number: in the database.
        repository: kind and id.
        tenant: whose members write.
        private: whether only they read.
        head: the commit of main.
        author: user who created it.
        created_at: moment of that.
        changed_at: of the last commit.
        card: metadata of the card of main.
    """

    number: int
    repository: Repository
    tenant: str
    private: bool
    head: str
    author: str
    created_at: datetime
    changed_at: datetime
    card: Mapping[str, Any]


@dataclass(frozen=True)
class Commit:
    """A commit with all files of the repository.

    Args:
        sha: its id.
        title: first line of the message.
        author: user.
        created_at: moment.
        files: by path.
        card: metadata of its card.
    """

    sha: str
    title: str
    author: str
    created_at: datetime
    files: Mapping[str, File]
    card: Mapping[str, Any]


class OverLimit(Exception):
    """The tenant's repositories would use more than they may."""


def object_path(directory: Path, tenant: str, sha256: str) -> Path:
    """Of an object's bytes below `published_path`; each tenant has its own, so that nobody learns or gets another's by
    its hash.
    """
    return directory / tenant / sha256[:2] / sha256


_HEADS = select(repositories, commits.c.card).join(
    commits, and_(commits.c.number == repositories.c.number, commits.c.sha == repositories.c.head)
)


def _published(row: Any, card: Mapping[str, Any]) -> Published:
    repository = Repository(row.kind, f"{row.tenant}/{row.name}")
    times = (row.created_at, row.changed_at)
    return Published(row.number, repository, row.tenant, row.private, row.head, row.author, *times, card)


def readable(tenants: Sequence[str]) -> ColumnElement[bool]:
    """Condition: repositories that members of these tenants read."""
    return or_(repositories.c.private.is_(False), repositories.c.tenant.in_(tenants))


async def find(connection: AsyncConnection, repository: Repository, *, lock: bool = False) -> Published | None:
    """A repository, whoever may read it.

    Args:
        connection: of the database; with `lock`, of a transaction.
        repository: kind and id.
        lock: whether others wait to change it until the transaction ends.
    """
    query = _HEADS.where(
        repositories.c.kind == repository.kind,
        repositories.c.tenant == repository.namespace,
        func.lower(repositories.c.name) == repository.name.lower(),
    )
    row = (await connection.execute(query.with_for_update(of=repositories) if lock else query)).one_or_none()
    return None if row is None else _published(row, row.card)


async def numbered(connection: AsyncConnection, number: int) -> Published | None:
    """The repository with that number."""
    row = (await connection.execute(_HEADS.where(repositories.c.number == number))).one_or_none()
    return None if row is None else _published(row, row.card)


async def search(
    connection: AsyncConnection, condition: ColumnElement[bool], limit: int, offset: int
) -> list[Published]:
    """Repositories, last changed first."""
    query = _HEADS.where(condition).order_by(repositories.c.changed_at.desc(), repositories.c.number)
    return [_published(row, row.card) for row in await connection.execute(query.limit(limit).offset(offset))]


async def create(
    connection: AsyncConnection, repository: Repository, author: str, *, private: bool
) -> Published | None:
    """A new repository with a first commit without files; None: there is one by that name."""
    sha = _commit_id(None, {}, "initial commit", author)
    values = {
        "kind": repository.kind,
        "tenant": repository.namespace,
        "name": repository.name,
        "private": private,
        "head": sha,
        "author": author,
    }
    statement = upsert(repositories).values(values).on_conflict_do_nothing().returning(repositories)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    first = {"number": row.number, "sha": sha, "title": "initial commit", "description": "", "author": author}
    await connection.execute(insert(commits).values({**first, "files": {}}))
    return _published(row, {})


async def set_private(connection: AsyncConnection, number: int, *, private: bool) -> None:
    """Changes who reads it."""
    await connection.execute(update(repositories).where(repositories.c.number == number).values(private=private))


async def remove(connection: AsyncConnection, record: Published) -> list[str]:
    """Deletes a repository; returns the objects that no other of the tenant has."""
    own = select(objects.c.sha256).where(objects.c.number == record.number)
    mine = [row.sha256 for row in await connection.execute(own)]
    await connection.execute(delete(repositories).where(repositories.c.number == record.number))
    return await unused(connection, record.tenant, mine)


async def unused(connection: AsyncConnection, tenant: str, hashes: Sequence[str]) -> list[str]:
    """Those of the objects that no repository of the tenant has."""
    used = select(objects.c.sha256).where(objects.c.sha256.in_(hashes), _of(tenant))
    kept = {row.sha256 for row in await connection.execute(used)}
    return [sha256 for sha256 in hashes if sha256 not in kept]


async def commit_of(connection: AsyncConnection, record: Published, revision: str) -> Commit | None:
    """The commit that a revision names: main, or a commit."""
    sha = record.head if revision in (MAIN, "HEAD", f"refs/heads/{MAIN}") else revision
    if not is_commit(sha):
        return None
    query = select(commits).where(commits.c.number == record.number, commits.c.sha == sha)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return Commit(sha, row.title, row.author, row.created_at, {k: File(*v) for k, v in row.files.items()}, row.card)


async def history(connection: AsyncConnection, record: Published, limit: int) -> list[Any]:
    """The last commits, newest first: sha, title, description, author, created_at."""
    query = select(commits).where(commits.c.number == record.number).order_by(commits.c.created_at.desc()).limit(limit)
    return list(await connection.execute(query))


async def add_commit(
    connection: AsyncConnection,
    record: Published,
    files: Mapping[str, File],
    title: str,
    description: str,
    author: str,
    card: Mapping[str, Any],
) -> str:
    """Puts a commit on main of a locked repository; returns its id."""
    sha = _commit_id(record.head, files, title, author)
    content = {path: [file.sha256, file.size, file.oid, file.large] for path, file in files.items()}
    values = {"number": record.number, "sha": sha, "parent": record.head, "title": title, "description": description}
    await connection.execute(insert(commits).values({**values, "author": author, "files": content, "card": card}))
    hashes = {file.sha256 for file in files.values()}
    for part in _parts(sorted(hashes)):
        of_it = and_(objects.c.number == record.number, objects.c.sha256.in_(part))
        await connection.execute(update(objects).where(of_it).values(committed=True))
    await connection.execute(
        update(repositories).where(repositories.c.number == record.number).values(head=sha, changed_at=func.now())
    )
    return sha


async def present(connection: AsyncConnection, number: int, hashes: Iterable[str]) -> dict[str, int]:
    """Sizes of the objects that a repository has."""
    query = select(objects.c.sha256, objects.c.size).where(objects.c.number == number, objects.c.sha256.in_(hashes))
    return {row.sha256: row.size for row in await connection.execute(query)}


async def add_object(connection: AsyncConnection, record: Published, sha256: str, size: int, limit: int) -> None:
    """Counts an object of a repository; the caller holds the tenant's lock.

    Raises:
        OverLimit: the tenant's objects would use more than the limit, in bytes.
    """
    known = await connection.execute(select(objects.c.sha256).where(_of(record.tenant), objects.c.sha256 == sha256))
    if known.first() is None and await usage(connection, record.tenant) + size > limit:
        raise OverLimit
    values = {"number": record.number, "sha256": sha256, "size": size, "committed": False}
    await connection.execute(upsert(objects).values(values).on_conflict_do_nothing())


async def usage(connection: AsyncConnection, tenant: str) -> int:
    """Bytes of a tenant's objects, each counted once."""
    each = select(objects.c.sha256, func.max(objects.c.size).label("size")).where(_of(tenant))
    grouped = each.group_by(objects.c.sha256).subquery()
    return int((await connection.execute(select(func.coalesce(func.sum(grouped.c.size), 0)))).scalar_one())


async def forget_uploads(connection: AsyncConnection, tenant: str) -> list[str]:
    """Deletes a tenant's uploads without a commit; returns what no repository of it has any more."""
    old = and_(
        _of(tenant),
        objects.c.committed.is_(False),
        objects.c.uploaded_at < func.now() - timedelta(hours=UNCOMMITTED_HOURS),
    )
    left = [row.sha256 for row in await connection.execute(delete(objects).where(old).returning(objects.c.sha256))]
    return await unused(connection, tenant, left)


def _of(tenant: str) -> ColumnElement[bool]:
    return objects.c.number.in_(select(repositories.c.number).where(repositories.c.tenant == tenant))


def _commit_id(parent: str | None, files: Mapping[str, File], title: str, author: str) -> str:
    content = [
        parent,
        {path: file.sha256 for path, file in files.items()},
        title,
        author,
        datetime.now(UTC).isoformat(),
    ]
    return hashlib.sha1(json.dumps(content, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def _parts(values: Sequence[str], size: int = 1000) -> Iterable[Sequence[str]]:
    return (values[start : start + size] for start in range(0, len(values), size))
