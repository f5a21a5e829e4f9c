"""The catalogue's tables, and what was read from the hub, as the migrations leave them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR

metadata = MetaData()


def _texts(name: str) -> Column[list[str]]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


def _catalogue(name: str, *columns: Column[str] | Column[list[str]]) -> Table:
    """A table with what models and datasets have in common."""
    return Table(
        name,
        metadata,
        Column("id", Text, primary_key=True),
        Column("hub_id", Text),
        Column("author", Text),
        Column("downloads", BigInteger, nullable=False),
        Column("likes", BigInteger, nullable=False),
        Column("license", Text),
        _texts("languages"),
        _texts("tags"),
        _flag("disabled"),
        _flag("gated"),
        _flag("private"),
        *columns,
        Column("created_at", DateTime(timezone=True)),
        Column("last_modified", DateTime(timezone=True)),
        Column("loaded_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
        # the loader writes the words, PostgreSQL derives what it searches in
        Column("search_text", Text, nullable=False),
        Column("search", TSVECTOR, Computed("to_tsvector('simple'::regconfig, search_text)", persisted=True)),
    )


def _index(table: Table, names: tuple[str, ...], lists: tuple[str, ...]) -> None:
    popular = (table.c.downloads.desc(), table.c.id)
    Index(f"{table.name}_popular", *popular)
    for name in names:
        Index(f"{table.name}_{name}", table.c[name], *popular)
    for name in lists:
        Index(f"{table.name}_{name}", table.c[name], postgresql_using="gin")


models = _catalogue("models", Column("pipeline_tag", Text), Column("library_name", Text), _texts("datasets"))
_index(models, ("author", "pipeline_tag", "library_name"), ("languages", "datasets", "search"))

datasets = _catalogue(
    "datasets",
    _texts("task_categories"),
    _texts("size_categories"),
    Column("description", Text),
    Column("citation", Text),
    Column("paperswithcode_id", Text),
)
_index(datasets, ("author",), ("languages", "task_categories", "size_categories", "search"))

CATALOGUE = {table.name: table for table in (models, datasets)}

fetched = Table(
    "fetched",
    metadata,
    Column("kind", Text),
    Column("id", Text),
    Column("part", Text),
    # JSON; null: the hub has none
    Column("content", Text),
    Column("size", Integer, nullable=False),
    Column("fetched_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    PrimaryKeyConstraint("kind", "id", "part"),
)
