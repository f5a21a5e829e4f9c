"""For probes: alive, and ready to answer from the database."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from strata_http.migrations import Migrations

PATHS = frozenset({"/healthz", "/readyz"})


class Health(BaseModel):
    """The answer to a probe."""

    status: Literal["ok"] = "ok"


def create_router(service: str, migrations: Migrations | None) -> APIRouter:
    """The routes of one service.

    Args:
        service: its name, for messages.
        migrations: whose newest version the database must have; None for a service without a database.
    """
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="The process is alive")
    async def live() -> Health:
        """Checks nothing else: a restart repairs no database."""
        return Health()

    if migrations is None:
        router.get("/readyz", summary="The process is alive: it has no database")(live)
        return router
    head, fix = migrations.head(), f"run `{service} migrate`"

    @router.get("/readyz", summary="The database answers, with the schema of this release")
    async def ready(request: Request) -> Health:
        """503 while the database is away or not migrated."""
        engine: AsyncEngine = request.app.state.engine
        async with engine.connect() as connection:
            if (await connection.execute(text("SELECT to_regclass('alembic_version')"))).scalar() is None:
                raise HTTPException(503, f"the database has no schema yet: {fix}")
            version = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar()
        # a newer schema is fine: the next release may be rolling out beside this one
        if version is None or str(version) < head:
            raise HTTPException(503, f"the database has schema {version}, this release needs {head}: {fix}")
        return Health()

    return router
