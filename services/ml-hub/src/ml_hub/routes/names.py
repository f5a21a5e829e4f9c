"""The values that the filters of models take, with the number of models of each."""

from __future__ import annotations

from fastapi import APIRouter, Request

from ml_hub import queries
from ml_hub.queries import NameKind
from ml_hub.routes.lists import operation, page_metadata
from strata_http.database import Connection
from strata_http.envelope import Envelope, success
from strata_http.pages import Page, PageQuery

router = APIRouter(tags=["names"], generate_unique_id_function=operation)
Counts = Envelope[dict[str, int]]


async def _respond(request: Request, connection: Connection, kind: NameKind, page: Page) -> Counts:
    rows, following = await queries.list_names(connection, kind, page.limit, page.after)
    result = {row["name"]: row["count"] for row in rows}
    return success(request, f"{kind} counted", result, **page_metadata(rows, following))


@router.get("/authors", summary="Authors")
async def list_authors(request: Request, connection: Connection, page: PageQuery) -> Counts:
    """Accounts with the number of their models, most first; more pages by `cursor`."""
    return await _respond(request, connection, "authors", page)


@router.get("/tasks", summary="Tasks")
async def list_tasks(request: Request, connection: Connection, page: PageQuery) -> Counts:
    """Tasks (pipeline tags) with the number of models, most first; more pages by `cursor`."""
    return await _respond(request, connection, "tasks", page)


@router.get("/libraries", summary="Libraries")
async def list_libraries(request: Request, connection: Connection, page: PageQuery) -> Counts:
    """Libraries with the number of models, most first; more pages by `cursor`."""
    return await _respond(request, connection, "libraries", page)


@router.get("/languages", summary="Languages")
async def list_languages(request: Request, connection: Connection, page: PageQuery) -> Counts:
    """Language codes with the number of models, most first; more pages by `cursor`."""
    return await _respond(request, connection, "languages", page)
