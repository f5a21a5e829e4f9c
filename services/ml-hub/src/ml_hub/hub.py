"""What the site's hub returns for repositories, stored so that it outlives an outage of the hub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import and_, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ml_hub.endpoint import Endpoint, EndpointUnavailable
from ml_hub.repositories import is_repository
from ml_hub.settings import Settings
from ml_hub.tables import fetched

Kind = Literal["models", "datasets"]
Part = Literal["info", "card", "sizes"]
ROW_BYTES = 200
"""Of a row besides its content, about."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Fetched:
    """What was read.

    Args:
        content: of the hub; None: it has none.
        at: when it was read.
        stale: whether it is older than it should be, because the hub does not respond.
    """

    content: Any
    at: datetime
    stale: bool = False

    @property
    def described(self) -> dict[str, Any]:
        """As metadata of a response."""
        return {"source": "hub", "fetched_at": self.at.isoformat(), "stale": self.stale}


class Hub:
    """The hub behind a table of what was read.

    Args:
        settings: without a `hub_endpoint`, nothing is ever read.
    """

    def __init__(self, settings: Settings) -> None:
        self._endpoint = Endpoint(settings) if settings.hub_endpoint else None
        self._fresh = timedelta(seconds=settings.hub_fresh_seconds)
        self._bytes = settings.hub_cache_bytes
        self._locks: WeakValueDictionary[tuple[Kind, str, Part], asyncio.Lock] = WeakValueDictionary()
        self.public_url = f"{settings.hub_public_url or settings.hub_endpoint or ''}".rstrip("/")
        """In links for users, without a slash at its end; empty without a hub."""

    async def read(self, engine: AsyncEngine, kind: Kind, repository: str, part: Part) -> Fetched | None:
        """What the hub returns, or returned when it last responded; None: there is no hub, or no such name at any hub.

        The database is not held while the hub is read.

        Args:
            engine: of the database.
            kind: of the repository.
            repository: its id, as a user gave it.
            part: what to read.

        Raises:
            AccessNeeded: the hub gives it only to accounts that were granted access.
            EndpointUnavailable: the hub does not respond as it should, and it was never read before.
        """
        if self._endpoint is None or not is_repository(repository):
            return None
        stored = await self._stored_one(engine, kind, repository, part)
        if stored is not None and not stored.stale:
            return stored
        lock = self._locks.setdefault((kind, repository, part), asyncio.Lock())
        async with lock:
            # another request may have read it while this one waited
            stored = await self._stored_one(engine, kind, repository, part)
            if stored is not None and not stored.stale:
                return stored
            reads: dict[Part, Callable[[str, str], Awaitable[Any]]] = {
                "info": self._endpoint.info,
                "card": self._endpoint.card,
                "sizes": self._endpoint.sizes,
            }
            try:
                content = await reads[part](kind, repository)
            except EndpointUnavailable as error:
                log.warning("hub unavailable", repository=repository, part=part, reason=str(error))
                if stored is None:
                    raise
                return stored
            async with engine.connect() as connection:
                await _store(connection, kind, repository, part, content)
                await _prune(connection, self._bytes)
            return Fetched(content, datetime.now(UTC))

    async def _stored_one(self, engine: AsyncEngine, kind: Kind, repository: str, part: Part) -> Fetched | None:
        """What is stored, stale if it is older than it should be."""
        async with engine.connect() as connection:
            stored = await _stored(connection, kind, repository, part)
        if stored is None:
            return None
        return replace(stored, stale=datetime.now(UTC) - stored.at >= self._fresh)


def _key(kind: Kind, repository: str, part: Part) -> dict[str, str]:
    return {"kind": kind, "id": repository, "part": part}


async def _stored(connection: AsyncConnection, kind: Kind, repository: str, part: Part) -> Fetched | None:
    query = select(fetched.c.content, fetched.c.fetched_at).filter_by(**_key(kind, repository, part))
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Fetched(json.loads(row.content or "null"), row.fetched_at)


async def _store(connection: AsyncConnection, kind: Kind, repository: str, part: Part, content: object) -> None:
    text = None if content is None else json.dumps(content)
    size = ROW_BYTES + len(text or "")
    statement = insert(fetched).values(**_key(kind, repository, part), content=text, size=size)
    new = statement.excluded
    changes = {"content": new.content, "size": new.size, "fetched_at": func.now()}
    await connection.execute(statement.on_conflict_do_update(constraint=fetched.primary_key, set_=changes))


async def _prune(connection: AsyncConnection, limit: int) -> None:
    """Deletes the oldest rows beyond a number of bytes."""
    key = tuple(fetched.primary_key.columns)
    newest = func.sum(fetched.c.size).over(order_by=(fetched.c.fetched_at.desc(), *key)).label("bytes")
    summed = select(*key, newest).subquery()
    same = and_(*(column == summed.c[column.name] for column in key))
    # of two replicas that prune, one leaves the other's rows alone, in place of a deadlock
    beyond = select(*key).join(summed, same).where(summed.c.bytes > limit).with_for_update(of=fetched, skip_locked=True)
    await connection.execute(delete(fetched).where(tuple_(*key).in_(beyond)))
