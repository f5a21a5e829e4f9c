"""Models: the list, its filters, and one model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from ml_hub.queries import ModelFilter
from ml_hub.repository import find
from ml_hub.routes import lists
from ml_hub.routes.lists import Author, InPath, Language, Task, Words
from ml_hub.routes.shapes import Model, ModelSummary, model
from strata_http.database import Connection
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.pages import Page, PageQuery
from strata_http.values import Text

router = APIRouter(tags=["models"], generate_unique_id_function=lists.operation)
one_router = APIRouter(tags=["models"], generate_unique_id_function=lists.operation)
"""After all others below /models: its path takes slashes and would swallow them."""
Listed = Envelope[dict[str, ModelSummary]]


def _filter(
    author: Author = None,
    task: Task = None,
    library: Annotated[Text | None, Query(description="Library, exactly.")] = None,
    language: Language = None,
    dataset: Annotated[Text | None, Query(description="Dataset that it was trained on, exactly.")] = None,
    search: Words = None,
) -> ModelFilter:
    return ModelFilter(author, task, language, search, library, dataset)


Filter = Annotated[ModelFilter, Depends(_filter)]


async def _respond(request: Request, connection: Connection, chosen: ModelFilter, page: Page) -> Listed:
    return await lists.respond(request, connection, chosen, page, ModelSummary)


@router.get("/models", summary="The most downloaded models", response_model_exclude_none=True)
async def list_models(request: Request, connection: Connection, chosen: Filter, page: PageQuery) -> Listed:
    """The top 100, narrowed by any of the filters; more pages by `cursor`, which is `next_cursor` of the metadata."""
    return await _respond(request, connection, chosen, page)


@router.get("/models/authors/{author_id}", summary="Models of an author", response_model_exclude_none=True)
async def list_models_by_author(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, author_id: InPath
) -> Listed:
    """As `/models?author=`."""
    return await _respond(request, connection, chosen.with_values(author=author_id), page)


@router.get("/search/{query:path}/models", summary="Models by words", response_model_exclude_none=True)
@router.get(
    "/models/search/{query:path}",
    name="search_models",
    summary="Models by words",
    response_model_exclude_none=True,
)
async def list_models_by_query(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, query: InPath
) -> Listed:
    """As `/models?search=`."""
    return await _respond(request, connection, chosen.with_values(search=query), page)


@router.get("/models/tasks/{task_type}", summary="Models for a task", response_model_exclude_none=True)
async def list_models_by_task(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, task_type: InPath
) -> Listed:
    """As `/models?task=`."""
    return await _respond(request, connection, chosen.with_values(task=task_type), page)


@router.get(
    "/models/trained_datasets/{dataset_id:path}",
    summary="Models trained on a dataset",
    response_model_exclude_none=True,
)
async def list_models_by_dataset(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, dataset_id: InPath
) -> Listed:
    """As `/models?dataset=`."""
    return await _respond(request, connection, chosen.with_values(dataset=dataset_id), page)


@router.get("/models/libraries/{library_name}", summary="Models of a library", response_model_exclude_none=True)
async def list_models_by_library(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, library_name: InPath
) -> Listed:
    """As `/models?library=`."""
    return await _respond(request, connection, chosen.with_values(library=library_name), page)


@router.get("/models/languages/{language_name}", summary="Models for a language", response_model_exclude_none=True)
async def list_models_by_language(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, language_name: InPath
) -> Listed:
    """As `/models?language=`."""
    return await _respond(request, connection, chosen.with_values(language=language_name), page)


@one_router.get(
    "/models/{model_id:path}",
    summary="One model",
    response_model_exclude_none=True,
    responses=ENVELOPE.described({404: "There is no such model."}),
)
async def get_model(request: Request, model_id: InPath) -> Envelope[Model]:
    """All that the catalogue and the hub know of a model; its id is given with its slash, or with %2F."""
    repository = await find(request, "models", model_id)
    return success(request, "model found", model(repository), **repository.metadata)
