"""Models: the list, its filters, and one model."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import Field

from ml_hub import queries
from ml_hub.queries import ModelFilter
from strata_http.database import Connection
from strata_http.pages import Page, PageQuery
from strata_http.problems import not_found
from strata_http.values import Response, Text

router = APIRouter(tags=["models"])


class ModelSummary(Response):
    """A model in a list."""

    id: str = Field(description="Name with its author.", examples=["google/flan-t5-large"])
    author: str | None = Field(description="Account it belongs to.", examples=["google"])
    downloads: int = Field(description="Downloads in the last 30 days.")
    likes: int
    pipeline_tag: str | None = Field(description="Task.", examples=["text2text-generation"])
    library_name: str | None = Field(examples=["transformers"])
    license: str | None = Field(examples=["apache-2.0"])
    languages: list[str] = Field(description="ISO 639 codes.", examples=[["en", "de"]])
    last_modified: datetime | None


class Model(ModelSummary):
    """All that the catalogue knows of a model."""

    datasets: list[str] = Field(description="Data sets that it was trained on.", examples=[["c4"]])
    tags: list[str]
    created_at: datetime | None
    loaded_at: datetime = Field(description="When the catalogue last took over a change.")


class ModelList(Response):
    """One page of models, most downloaded first."""

    items: list[ModelSummary]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last.")


def _filter(
    author: Annotated[Text | None, Query(description="Account, exactly.")] = None,
    task: Annotated[Text | None, Query(description="Task (pipeline tag), exactly.")] = None,
    library: Annotated[Text | None, Query(description="Library, exactly.")] = None,
    language: Annotated[Text | None, Query(description="Language code, exactly.")] = None,
    dataset: Annotated[Text | None, Query(description="Data set that it was trained on, exactly.")] = None,
    search: Annotated[
        Text | None, Query(description="Words that begin words of the name, the task, the library, tags or data sets.")
    ] = None,
) -> ModelFilter:
    return ModelFilter(author, task, library, language, dataset, search)


Filter = Annotated[ModelFilter, Depends(_filter)]


async def _respond(connection: Connection, chosen: ModelFilter, page: Page) -> ModelList:
    rows, following = await queries.list_models(connection, chosen, page.limit, page.after)
    items = [ModelSummary.model_validate(dict(row)) for row in rows]
    return ModelList(items=items, next_cursor=following.encode() if following else None)


@router.get("/models", summary="The most downloaded models")
async def list_models(connection: Connection, chosen: Filter, page: PageQuery) -> ModelList:
    """The top 100, narrowed by any of the filters; more pages by `cursor`."""
    return await _respond(connection, chosen, page)


@router.get("/models/authors/{author_id}", summary="Models of an author")
async def list_by_author(
    connection: Connection, chosen: Filter, page: PageQuery, author_id: Annotated[Text, Path()]
) -> ModelList:
    """As `/models?author=`."""
    return await _respond(connection, chosen.with_values(author=author_id), page)


@router.get("/models/search/{query:path}", summary="Models by words")
async def search_models(
    connection: Connection, chosen: Filter, page: PageQuery, query: Annotated[Text, Path()]
) -> ModelList:
    """As `/models?search=`."""
    return await _respond(connection, chosen.with_values(search=query), page)


@router.get("/models/tasks/{task_type}", summary="Models for a task")
async def list_by_task(
    connection: Connection, chosen: Filter, page: PageQuery, task_type: Annotated[Text, Path()]
) -> ModelList:
    """As `/models?task=`."""
    return await _respond(connection, chosen.with_values(task=task_type), page)


@router.get("/models/trained_datasets/{dataset_id:path}", summary="Models trained on a data set")
async def list_by_dataset(
    connection: Connection, chosen: Filter, page: PageQuery, dataset_id: Annotated[Text, Path()]
) -> ModelList:
    """As `/models?dataset=`."""
    return await _respond(connection, chosen.with_values(dataset=dataset_id), page)


@router.get("/models/libraries/{library_name}", summary="Models of a library")
async def list_by_library(
    connection: Connection, chosen: Filter, page: PageQuery, library_name: Annotated[Text, Path()]
) -> ModelList:
    """As `/models?library=`."""
    return await _respond(connection, chosen.with_values(library=library_name), page)


@router.get("/models/languages/{language_name}", summary="Models for a language")
async def list_by_language(
    connection: Connection, chosen: Filter, page: PageQuery, language_name: Annotated[Text, Path()]
) -> ModelList:
    """As `/models?language=`."""
    return await _respond(connection, chosen.with_values(language=language_name), page)


# the last: its path takes slashes and would swallow the routes above
@router.get("/models/{model_id:path}", summary="One model", responses=not_found("There is no such model."))
async def get_model(connection: Connection, model_id: Annotated[Text, Path()]) -> Model:
    """All that the catalogue knows of a model; its id is given with its slash."""
    row = await queries.get_model(connection, model_id)
    if row is None:
        raise HTTPException(404, f"the catalogue holds no model {model_id!r}; /v3/ml-hub/models?search= finds its name")
    return Model.model_validate(dict(row))
