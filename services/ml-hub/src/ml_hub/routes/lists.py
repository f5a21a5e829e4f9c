"""What lists of models and of datasets have in common."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Request
from fastapi.routing import APIRoute
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from ml_hub import queries
from ml_hub.queries import Filter
from ml_hub.routes.shapes import DatasetSummary, ModelSummary
from strata_http.envelope import Envelope, success
from strata_http.pages import Page, Position
from strata_http.values import Text

SummaryT = TypeVar("SummaryT", ModelSummary, DatasetSummary)
Words = Annotated[
    Text | None, Query(description="Words that begin words of the name, the tasks, tags and other texts.")
]
Author = Annotated[Text | None, Query(description="Account, exactly.")]
Task = Annotated[Text | None, Query(description="Task, exactly.")]
Language = Annotated[Text | None, Query(description="Language code, exactly.")]
InPath = Annotated[Text, Path()]


def operation(route: APIRoute) -> str:
    """Id of a route in the API's description, a method of clients made from it: that of Tapis' own description."""
    return route.name


def page_metadata(rows: list[RowMapping], following: Position | None) -> dict[str, Any]:
    """Number of entries, and the cursor of the next page where there is one."""
    return {"count": len(rows)} | ({"next_cursor": following.encode()} if following else {})


async def respond(
    request: Request, connection: AsyncConnection, chosen: Filter, page: Page, summary: type[SummaryT]
) -> Envelope[dict[str, SummaryT]]:
    """One page, most downloaded first, as an object by id."""
    rows, following = await queries.list_entries(connection, chosen, page.limit, page.after)
    result = {row["id"]: summary.model_validate(dict(row)) for row in rows}
    return success(request, f"{chosen.table.name} listed", result, **page_metadata(rows, following))
