"""What the API asks the database: pages of models, one model, names with counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, RowMapping, String, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ml_hub.records import words
from ml_hub.tables import models
from strata_http.pages import Position, fetch_page

NameKind = Literal["authors", "tasks", "libraries", "languages"]


@dataclass(frozen=True)
class ModelFilter:
    """Which models; each set field narrows the choice."""

    author: str | None = None
    task: str | None = None
    library: str | None = None
    language: str | None = None
    dataset: str | None = None
    search: str | None = None

    def with_values(self, **values: str) -> ModelFilter:
        """The same with some fields replaced."""
        return replace(self, **values)

    def conditions(self) -> list[ColumnElement[bool]]:
        """As SQL; each is served by an index."""
        found: list[ColumnElement[bool]] = []
        for column, value in (
            (models.c.author, self.author),
            (models.c.pipeline_tag, self.task),
            (models.c.library_name, self.library),
        ):
            if value is not None:
                found.append(column == value)
        if self.language is not None:
            found.append(models.c.languages.contains([self.language]))
        if self.dataset is not None:
            found.append(models.c.datasets.contains([self.dataset]))
        if self.search is not None:
            # every word must begin a word of the model; quotes are not needed: words hold letters and digits only
            query = " & ".join(f"{word}:*" for word in words(self.search))
            found.append(models.c.search.op("@@")(func.to_tsquery("simple", query)) if query else literal(False))
        return found


_SUMMARY = tuple(
    models.c[name]
    for name in (
        "id", "author", "downloads", "likes", "pipeline_tag", "library_name", "license", "languages", "last_modified",
    )
)  # fmt: skip
_DETAIL = tuple(c for c in models.columns if c.name not in ("search", "search_text"))


async def list_models(
    connection: AsyncConnection, chosen: ModelFilter, limit: int, after: Position | None
) -> tuple[list[RowMapping], Position | None]:
    """One page of models, most downloaded first, and where the next begins (None: it was the last)."""
    query = select(*_SUMMARY).where(*chosen.conditions())
    if after is not None:
        query = query.where(after.after(models.c.downloads, models.c.id))
    query = query.order_by(models.c.downloads.desc(), models.c.id)
    return await fetch_page(connection, query, limit, "downloads", "id")


async def get_model(connection: AsyncConnection, model_id: str) -> RowMapping | None:
    """All that is known of one model."""
    return (await connection.execute(select(*_DETAIL).where(models.c.id == model_id))).mappings().one_or_none()


async def list_names(
    connection: AsyncConnection, kind: NameKind, limit: int, after: Position | None
) -> tuple[list[RowMapping], Position | None]:
    """One page of the names that models carry, with the number of models, most used first."""
    value: ColumnElement[Any] = {
        "authors": models.c.author,
        "tasks": models.c.pipeline_tag,
        "libraries": models.c.library_name,
        "languages": func.unnest(models.c.languages, type_=String()),
    }[kind]
    values = select(value.label("name")).subquery()
    counted = (
        select(values.c.name, func.count().label("count"))
        .where(values.c.name.is_not(None))
        .group_by(values.c.name)
        .subquery()
    )
    query = select(counted)
    if after is not None:
        query = query.where(after.after(counted.c.count, counted.c.name))
    query = query.order_by(counted.c.count.desc(), counted.c.name)
    return await fetch_page(connection, query, limit, "count", "name")
