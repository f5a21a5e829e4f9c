"""Pages that list models and datasets, and search them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BeforeValidator
from sqlalchemy.ext.asyncio import AsyncConnection

from ml_hub import queries
from ml_hub.queries import DatasetFilter, Filter, ModelFilter
from ml_hub.repositories import is_repository
from ml_hub.repository import hub_of
from ml_hub.routes.inference import may_ask
from ml_hub.settings import Settings
from ml_hub.web.asking import UNKNOWN, State, read_states
from strata_http.database import Connection
from strata_http.pages import Page, PageQuery
from strata_http.values import Text
from strata_http.web.guards import Visitor, VisitorToken
from strata_http.web.responses import go_to, render

router = APIRouter()


def _given(value: object) -> object:
    """None for a field of the form that was left empty."""
    return (value.strip() or None) if isinstance(value, str) else value


Field = Annotated[Text | None, BeforeValidator(_given), Query()]


@router.get("/")
async def open_start() -> Response:
    """The models are the start page."""
    return go_to("/models")


@router.get("/models")
async def show_models(
    request: Request,
    visitor: Visitor,
    connection: Connection,
    page: PageQuery,
    token: VisitorToken,
    search: Field = None,
    author: Field = None,
    task: Field = None,
    library: Field = None,
) -> Response:
    """The most downloaded models, narrowed by the form; on top, what the site serves."""
    typed = {"search": search, "author": author, "task": task, "library": library}
    settings: Settings = request.app.state.settings
    own = [model for model in sorted(settings.inference_models) if may_ask(settings, visitor, model)]
    states = await read_states(request, token) if own else {}
    served = [(model, states.get(model, UNKNOWN)) for model in own]
    return await _list(request, connection, ModelFilter(author, task, None, search, library), page, typed, served)


@router.get("/datasets")
async def show_datasets(
    request: Request,
    connection: Connection,
    page: PageQuery,
    search: Field = None,
    author: Field = None,
    task: Field = None,
) -> Response:
    """The most downloaded datasets, narrowed by the form."""
    typed = {"search": search, "author": author, "task": task, "library": None}
    return await _list(request, connection, DatasetFilter(author, task, None, search), page, typed, [])


async def _list(
    request: Request,
    connection: AsyncConnection,
    chosen: Filter,
    page: Page,
    typed: Mapping[str, str | None],
    served: Sequence[tuple[str, State]],
) -> Response:
    rows, following = await queries.list_entries(connection, chosen, page.limit, page.after)
    values = {name: value for name, value in typed.items() if value is not None}
    words = values.get("search", "")
    return render(
        request,
        "list.html",
        kind=chosen.table.name,
        rows=rows,
        typed=typed,
        narrowed=bool(values),
        # a hub has more repositories than the catalogue, and has only their names
        named=words if "/" in words and is_repository(words) else "",
        first="" if page.after is None else f"?{urlencode(values)}",
        following="" if following is None else f"?{urlencode({**values, 'cursor': following.encode()})}",
        served=served,
        hub_url=hub_of(request).public_url,
    )
