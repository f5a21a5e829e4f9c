"""The catalogue's table, as the migrations leave it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Computed, DateTime, Index, MetaData, Table, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR

metadata = MetaData()


def _texts(name: str) -> Column[list[str]]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


models = Table(
    "models",
    metadata,
    Column("id", Text, primary_key=True),
    Column("author", Text),
    Column("downloads", BigInteger, nullable=False),
    Column("likes", BigInteger, nullable=False),
    Column("pipeline_tag", Text),
    Column("library_name", Text),
    Column("license", Text),
    _texts("languages"),
    _texts("datasets"),
    _texts("tags"),
    Column("created_at", DateTime(timezone=True)),
    Column("last_modified", DateTime(timezone=True)),
    Column("loaded_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    # the loader writes the words, PostgreSQL derives what it searches in
    Column("search_text", Text, nullable=False),
    Column("search", TSVECTOR, Computed("to_tsvector('simple'::regconfig, search_text)", persisted=True)),
)

_popular = (models.c.downloads.desc(), models.c.id)
Index("models_popular", *_popular)
Index("models_author", models.c.author, *_popular)
Index("models_pipeline_tag", models.c.pipeline_tag, *_popular)
Index("models_library_name", models.c.library_name, *_popular)
Index("models_languages", models.c.languages, postgresql_using="gin")
Index("models_datasets", models.c.datasets, postgresql_using="gin")
Index("models_search", models.c.search, postgresql_using="gin")
