"""What the site's hub tells of repositories, stored so that it outlives an outage of the hub."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import structlog
from sqlalchemy import and_, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ml_hub.endpoint import Endpoint, EndpointUnavailable
from ml_hub.repositories import is_repository
from ml_hub.settings import Settings
from ml_hub.tables import fetched

Kind = Literal["models", "datasets"]
Part = Literal["info", "card"]
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
        self.public_url = f"{settings.hub_public_url or settings.hub_endpoint or ''}".rstrip("/")
        """In links for users, without a slash at its end; empty without a hub."""

    async def read(self, engine: AsyncEngine, kind: Kind, repository: str, part: Part) -> Fetched | None:
        """What the hub tells, or told when it last responded; None: there is no hub, or no such name at any hub.

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
        async with engine.connect() as connection:
            stored = await _stored(connection, kind, repository, part)
        if stored is not None and datetime.now(UTC) - stored.at < self._fresh:
            return stored
        read = self._endpoint.info if part == "info" else self._endpoint.card
        try:
            content = await read(kind, repository)
        except EndpointUnavailable as error:
            log.warning("hub unavailable", repository=repository, part=part, reason=str(error))
            if stored is None:
                raise
            return Fetched(stored.content, stored.at, stale=True)
        async with engine.connect() as connection:
            await _store(connection, kind, repository, part, content)
            await _prune(connection, self._bytes)
        return Fetched(content, datetime.now(UTC))


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
    await connection.execute(delete(fetched).where(same, summed.c.bytes > limit))
