"""What the API asks the database: pages of models and datasets, one of them, names with counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from sqlalchemy import Column, ColumnElement, RowMapping, String, Table, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ml_hub.records import words
from ml_hub.tables import datasets, models
from strata_http.pages import Position, fetch_page

NameKind = Literal["authors", "tasks", "libraries", "languages"]


@dataclass(frozen=True)
class Filter(ABC):
    """Which models or datasets; each set field narrows the choice.

    A subclass names its table, and the column of each field: of one value, or of a list that must contain it.
    """

    author: str | None = None
    task: str | None = None
    language: str | None = None
    search: str | None = None

    def with_values(self, **values: str) -> Self:
        """The same with some fields replaced."""
        return replace(self, **values)

    @property
    @abstractmethod
    def table(self) -> Table:
        """What it is a filter of."""

    def columns(self) -> list[tuple[Column[Any], str | None]]:
        """Columns of one value."""
        return [(self.table.c.author, self.author)]

    def lists(self) -> list[tuple[Column[Any], str | None]]:
        """Columns of lists."""
        return [(self.table.c.languages, self.language)]

    def conditions(self) -> list[ColumnElement[bool]]:
        """As SQL; each is served by an index."""
        clauses = [column == value for column, value in self.columns() if value is not None]
        clauses += [column.contains([value]) for column, value in self.lists() if value is not None]
        if self.search is not None:
            # every word must begin a word of the entry; quotes are not needed: words hold letters and digits only
            query = " & ".join(f"{word}:*" for word in words(self.search))
            clauses.append(self.table.c.search.op("@@")(func.to_tsquery("simple", query)) if query else literal(False))
        return clauses


@dataclass(frozen=True)
class ModelFilter(Filter):
    """Which models."""

    library: str | None = None
    dataset: str | None = None

    @property
    def table(self) -> Table:
        """That of the models."""
        return models

    def columns(self) -> list[tuple[Column[Any], str | None]]:
        """Author, task, library."""
        return [*super().columns(), (models.c.pipeline_tag, self.task), (models.c.library_name, self.library)]

    def lists(self) -> list[tuple[Column[Any], str | None]]:
        """Languages, datasets."""
        return [*super().lists(), (models.c.datasets, self.dataset)]


@dataclass(frozen=True)
class DatasetFilter(Filter):
    """Which datasets."""

    size_category: str | None = None

    @property
    def table(self) -> Table:
        """That of the datasets."""
        return datasets

    def lists(self) -> list[tuple[Column[Any], str | None]]:
        """Languages, tasks, sizes."""
        return [
            *super().lists(),
            (datasets.c.task_categories, self.task),
            (datasets.c.size_categories, self.size_category),
        ]


_UNREAD = ("search", "search_text", "description", "citation", "paperswithcode_id")
"""Columns that no list shows."""


async def list_entries(
    connection: AsyncConnection, chosen: Filter, limit: int, after: Position | None
) -> tuple[list[RowMapping], Position | None]:
    """One page of models or datasets, most downloaded first, and where the next begins (None: it was the last)."""
    table = chosen.table
    query = select(*(c for c in table.columns if c.name not in _UNREAD)).where(*chosen.conditions())
    if after is not None:
        query = query.where(after.after(table.c.downloads, table.c.id))
    query = query.order_by(table.c.downloads.desc(), table.c.id)
    return await fetch_page(connection, query, limit, "downloads", "id")


async def get_entry(connection: AsyncConnection, table: Table, entry_id: str) -> RowMapping | None:
    """All that the catalogue holds of one model or dataset."""
    columns = (c for c in table.columns if c.name not in ("search", "search_text"))
    return (await connection.execute(select(*columns).where(table.c.id == entry_id))).mappings().one_or_none()


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
