"""The table, as the migrations leave it."""

from __future__ import annotations

from sqlalchemy import Column, DateTime, MetaData, Table, Text, func

metadata = MetaData()

personal_access_tokens = Table(
    "personal_access_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("username", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("expires", DateTime(timezone=True), nullable=False),
    Column("last_used", DateTime(timezone=True)),
    Column("sealed", Text, nullable=False),
)
