"""For probes: alive, and ready to answer from the database."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from ml_hub.migrations import head

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The answer to a probe."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", summary="The process is alive")
async def live() -> Health:
    """Checks nothing else: a restart repairs no database."""
    return Health()


@router.get("/readyz", summary="The database answers, with the schema of this release")
async def ready(request: Request) -> Health:
    """503 while the database is away or not migrated."""
    engine: AsyncEngine = request.app.state.engine
    async with engine.connect() as connection:
        if (await connection.execute(text("SELECT to_regclass('alembic_version')"))).scalar() is None:
            raise HTTPException(503, "the database has no schema yet: run `ml-hub migrate`")
        found = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar()
    # a newer schema is fine: the next release may be rolling out beside this one
    if found is None or str(found) < head():
        raise HTTPException(503, f"the database has schema {found}, this release needs {head()}: run `ml-hub migrate`")
    return Health()
