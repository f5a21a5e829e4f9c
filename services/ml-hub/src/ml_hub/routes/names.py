"""The values that the filters take, with the number of models of each."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from ml_hub import queries
from ml_hub.queries import NameKind
from strata_http.database import Connection
from strata_http.pages import Page, PageQuery
from strata_http.values import Response

router = APIRouter(tags=["names"])


class NameCount(Response):
    """A name and how many models carry it."""

    name: str = Field(examples=["transformers"])
    count: int = Field(examples=[42])


class NameList(Response):
    """One page of names, most used first."""

    items: list[NameCount]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last.")


async def _respond(connection: Connection, kind: NameKind, page: Page) -> NameList:
    rows, following = await queries.list_names(connection, kind, page.limit, page.after)
    items = [NameCount.model_validate(dict(row)) for row in rows]
    return NameList(items=items, next_cursor=following.encode() if following else None)


@router.get("/authors", summary="Authors")
async def list_authors(connection: Connection, page: PageQuery) -> NameList:
    """Accounts with the number of their models."""
    return await _respond(connection, "authors", page)


@router.get("/tasks", summary="Tasks")
async def list_tasks(connection: Connection, page: PageQuery) -> NameList:
    """Tasks (pipeline tags) with the number of models."""
    return await _respond(connection, "tasks", page)


@router.get("/libraries", summary="Libraries")
async def list_libraries(connection: Connection, page: PageQuery) -> NameList:
    """Libraries with the number of models."""
    return await _respond(connection, "libraries", page)


@router.get("/languages", summary="Languages")
async def list_languages(connection: Connection, page: PageQuery) -> NameList:
    """Language codes with the number of models."""
    return await _respond(connection, "languages", page)
