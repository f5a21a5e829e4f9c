"""The tables, as the migrations leave them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, DateTime, Integer, LargeBinary, MetaData, Table, Text, column, table
from sqlalchemy import Column as DefinedColumn
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData()


def _text(*names: str) -> list[DefinedColumn[str]]:
    return [DefinedColumn(name, Text) for name in names]


answers = Table(
    "answers",
    metadata,
    DefinedColumn("key", Text, primary_key=True),
    DefinedColumn("status", Integer),
    DefinedColumn("body", LargeBinary),
    *_text("link", "error_code", "error_message"),
    DefinedColumn("fetched_at", DateTime(timezone=True)),
)
refs = Table(
    "refs", metadata, *_text("kind", "id", "revision", "commit"), DefinedColumn("checked_at", DateTime(timezone=True))
)
listings = Table("listings", metadata, *_text("kind", "id", "commit"), DefinedColumn("paths", ARRAY(Text)))
entries = Table(
    "entries",
    metadata,
    *_text("kind", "id", "commit", "path", "etag"),
    DefinedColumn("size", BigInteger),
    DefinedColumn("large", Boolean),
    DefinedColumn("seen_at", DateTime(timezone=True)),
)
repositories = table(
    "repositories",
    column("number", BigInteger),
    column("kind", Text),
    column("tenant", Text),
    column("name", Text),
    column("private", Boolean),
    column("head", Text),
    column("author", Text),
    column("created_at", DateTime(timezone=True)),
    column("changed_at", DateTime(timezone=True)),
)
commits = table(
    "commits",
    column("number", BigInteger),
    column("sha", Text),
    column("parent", Text),
    column("title", Text),
    column("description", Text),
    column("author", Text),
    column("files", JSONB),
    column("created_at", DateTime(timezone=True)),
)
objects = Table(
    "objects",
    metadata,
    DefinedColumn("number", BigInteger),
    DefinedColumn("sha256", Text),
    DefinedColumn("size", BigInteger),
    DefinedColumn("committed", Boolean),
    DefinedColumn("uploaded_at", DateTime(timezone=True)),
)
