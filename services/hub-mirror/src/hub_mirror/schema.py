"""The tables, as the migrations leave them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData()


def _text(*names: str) -> list[Column[str]]:
    return [Column(name, Text) for name in names]


answers = Table(
    "answers",
    metadata,
    Column("key", Text, primary_key=True),
    Column("status", Integer),
    Column("body", LargeBinary),
    *_text("link", "error_code", "error_message"),
    Column("fetched_at", DateTime(timezone=True)),
)
refs = Table(
    "refs", metadata, *_text("kind", "id", "revision", "commit"), Column("checked_at", DateTime(timezone=True))
)
listings = Table("listings", metadata, *_text("kind", "id", "commit"), Column("paths", ARRAY(Text)))
entries = Table(
    "entries",
    metadata,
    *_text("kind", "id", "commit", "path", "etag"),
    Column("size", BigInteger),
    Column("large", Boolean),
    Column("seen_at", DateTime(timezone=True)),
)
repositories = Table(
    "repositories",
    metadata,
    Column("number", BigInteger),
    Column("kind", Text),
    Column("tenant", Text),
    Column("name", Text),
    Column("private", Boolean),
    Column("head", Text),
    Column("author", Text),
    Column("created_at", DateTime(timezone=True)),
    Column("changed_at", DateTime(timezone=True)),
)
commits = Table(
    "commits",
    metadata,
    Column("number", BigInteger),
    Column("sha", Text),
    Column("parent", Text),
    Column("title", Text),
    Column("description", Text),
    Column("author", Text),
    Column("files", JSONB),
    Column("card", JSONB),
    Column("created_at", DateTime(timezone=True)),
)
objects = Table(
    "objects",
    metadata,
    Column("number", BigInteger),
    Column("sha256", Text),
    Column("size", BigInteger),
    Column("committed", Boolean),
    Column("uploaded_at", DateTime(timezone=True)),
)
