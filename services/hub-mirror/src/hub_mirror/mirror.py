"""The parts that routes use, made at the start of the process and ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import structlog
from fastapi import Depends, FastAPI, Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from hub_mirror import published
from hub_mirror.answers import Answers
from hub_mirror.blobs import BlobStore
from hub_mirror.counts import Counts
from hub_mirror.files import Files
from hub_mirror.names import Repository
from hub_mirror.settings import Settings
from hub_mirror.upstream import Upstream

TIDY_SECONDS = 600.0
KEY_BYTES = 32

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Mirror:
    """What routes use.

    Args:
        settings: of the service.
        engine: of the database.
        counts: metrics.
        upstream: the mirrored Hub.
        answers: of it, cached.
        files: of it.
        blobs: cached files.
    """

    settings: Settings
    engine: AsyncEngine
    counts: Counts
    upstream: Upstream
    answers: Answers
    files: Files
    blobs: BlobStore
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    # of this process: an upload that a restart cuts off begins again with a link of its own
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)

    @property
    def published(self) -> Path:
        """Directory of tenants' files."""
        return self.settings.published_path

    def is_tenants(self, repository: Repository) -> bool:
        """Whether its namespace is a tenant's, of which the upstream is never asked."""
        return repository.namespace in self.settings.tenants

    def tenant_lock(self, tenant: str) -> asyncio.Lock:
        """Held while objects of a tenant come or go: rows and files change together, in one process."""
        return self._locks.setdefault(tenant, asyncio.Lock())

    def sign(self, *values: object) -> str:
        """A text that only this process makes of these values."""
        return hmac.new(self._key, repr(values).encode(), "sha256").hexdigest()

    async def tidy(self) -> None:
        """Deletes the oldest answers beyond their limits, and uploads without a commit."""
        await self.answers.tidy()
        await self.files.tidy()
        for tenant in self.settings.tenants:
            async with self.tenant_lock(tenant):
                async with self.engine.connect() as connection:
                    left = await published.forget_uploads(connection, tenant)
                self.delete_objects(tenant, left)

    def delete_objects(self, tenant: str, hashes: list[str]) -> None:
        """Deletes bytes that no repository has any more."""
        for sha256 in hashes:
            published.object_path(self.published, tenant, sha256).unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def running(app: FastAPI, settings: Settings, counts: Counts) -> AsyncIterator[None]:
    """Makes `app.state.mirror`, tidies up now and then, ends all at the end."""
    engine: AsyncEngine = app.state.engine
    fresh = timedelta(seconds=settings.revalidate_seconds)
    upstream = Upstream(settings)
    answers = Answers(engine, upstream, counts, fresh, timedelta(seconds=settings.missing_seconds))
    blobs = BlobStore(settings.storage_path, settings.cache_bytes, counts)
    mirror = Mirror(settings, engine, counts, upstream, answers, Files(engine, upstream, answers, fresh), blobs)
    app.state.mirror = mirror
    tidying = asyncio.create_task(_tidy(mirror))
    try:
        yield
    finally:
        tidying.cancel()
        await asyncio.gather(tidying, return_exceptions=True)
        await blobs.close()
        await upstream.close()


async def _tidy(mirror: Mirror) -> None:
    while True:
        try:
            await mirror.tidy()
        except (SQLAlchemyError, OSError) as error:
            log.warning("tidying up failed", reason=str(error))
        await asyncio.sleep(TIDY_SECONDS)


def mirror_of(request: Request) -> Mirror:
    """Dependency of routes."""
    mirror: Mirror = request.app.state.mirror
    return mirror


TheMirror = Annotated[Mirror, Depends(mirror_of)]
