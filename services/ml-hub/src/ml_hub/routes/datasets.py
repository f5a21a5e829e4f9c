"""Datasets: the list, its filters, and one dataset."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from ml_hub.queries import DatasetFilter
from ml_hub.repository import find
from ml_hub.routes import lists
from ml_hub.routes.lists import Author, InPath, Language, Task, Words
from ml_hub.routes.shapes import Dataset, DatasetSummary, dataset
from strata_http.database import Connection
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.pages import Page, PageQuery
from strata_http.values import Text

router = APIRouter(tags=["datasets"], generate_unique_id_function=lists.operation)
Listed = Envelope[dict[str, DatasetSummary]]


def _filter(
    author: Author = None,
    task: Task = None,
    language: Language = None,
    size_category: Annotated[Text | None, Query(description="Number of rows, exactly: 10K<n<100K.")] = None,
    search: Words = None,
) -> DatasetFilter:
    return DatasetFilter(author, task, language, search, size_category)


Filter = Annotated[DatasetFilter, Depends(_filter)]


async def _respond(request: Request, connection: Connection, chosen: DatasetFilter, page: Page) -> Listed:
    return await lists.respond(request, connection, chosen, page, DatasetSummary)


@router.get("/datasets", summary="The most downloaded datasets", response_model_exclude_none=True)
async def list_datasets(request: Request, connection: Connection, chosen: Filter, page: PageQuery) -> Listed:
    """The top 100, narrowed by any of the filters; more pages by `cursor`, which is `next_cursor` of the metadata."""
    return await _respond(request, connection, chosen, page)


@router.get("/datasets/authors/{author_id}", summary="Datasets of an author", response_model_exclude_none=True)
async def list_datasets_by_author(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, author_id: InPath
) -> Listed:
    """As `/datasets?author=`."""
    return await _respond(request, connection, chosen.with_values(author=author_id), page)


@router.get("/search/{query:path}/datasets", summary="Datasets by words", response_model_exclude_none=True)
@router.get(
    "/datasets/search/{query:path}",
    name="search_datasets",
    summary="Datasets by words",
    response_model_exclude_none=True,
)
async def list_datasets_by_query(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, query: InPath
) -> Listed:
    """As `/datasets?search=`."""
    return await _respond(request, connection, chosen.with_values(search=query), page)


@router.get("/datasets/tasks/{task_type}", summary="Datasets for a task", response_model_exclude_none=True)
async def list_datasets_by_task(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, task_type: InPath
) -> Listed:
    """As `/datasets?task=`."""
    return await _respond(request, connection, chosen.with_values(task=task_type), page)


@router.get("/datasets/languages/{language_name}", summary="Datasets in a language", response_model_exclude_none=True)
async def list_datasets_by_language(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, language_name: InPath
) -> Listed:
    """As `/datasets?language=`."""
    return await _respond(request, connection, chosen.with_values(language=language_name), page)


@router.get(
    "/datasets/size-categories/{category}",
    summary="Datasets of a size",
    response_model_exclude_none=True,
)
@router.get(
    "/datasets/size_categories/{category}",
    name="list_datasets_by_size",
    summary="Datasets of a size",
    response_model_exclude_none=True,
)
async def list_datasets_by_size_category(
    request: Request, connection: Connection, chosen: Filter, page: PageQuery, category: InPath
) -> Listed:
    """As `/datasets?size_category=`."""
    return await _respond(request, connection, chosen.with_values(size_category=category), page)


# the last: its path takes slashes and would swallow the routes above
@router.get(
    "/datasets/{dataset_id:path}",
    summary="One dataset",
    response_model_exclude_none=True,
    responses=ENVELOPE.described({404: "There is no such dataset."}),
)
async def get_dataset(request: Request, dataset_id: InPath) -> Envelope[Dataset]:
    """All that the catalogue and the hub know of a dataset; its id is given with its slash, or with %2F."""
    repository = await find(request, "datasets", dataset_id)
    return success(request, "dataset found", dataset(repository), **repository.metadata)
