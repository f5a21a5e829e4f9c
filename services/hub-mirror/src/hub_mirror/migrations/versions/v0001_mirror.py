"""What is known of the upstream's repositories, and the repositories of tenants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None


def _moment(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def _repository() -> tuple[sa.Column[object], ...]:
    return (sa.Column("kind", sa.Text, primary_key=True), sa.Column("id", sa.Text, primary_key=True))


def _number() -> sa.Column[object]:
    repository = sa.ForeignKey("repositories.number", ondelete="CASCADE")
    return sa.Column("number", sa.BigInteger, repository, primary_key=True)


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "answers",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("link", sa.Text),
        sa.Column("error_code", sa.Text),
        sa.Column("error_message", sa.Text),
        _moment("fetched_at"),
    )
    op.create_index("answers_fetched_at", "answers", ["fetched_at"])
    op.create_table(
        "refs",
        *_repository(),
        sa.Column("revision", sa.Text, primary_key=True),
        sa.Column("commit", sa.Text, nullable=False),
        _moment("checked_at"),
    )
    op.create_table(
        "listings",
        *_repository(),
        sa.Column("commit", sa.Text, primary_key=True),
        sa.Column("paths", ARRAY(sa.Text), nullable=False),
    )
    op.create_table(
        "entries",
        *_repository(),
        sa.Column("commit", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        # unset: the commit has no such file
        sa.Column("etag", sa.Text),
        sa.Column("size", sa.BigInteger),
        sa.Column("large", sa.Boolean),
        _moment("seen_at"),
    )
    op.create_index("entries_missing", "entries", ["seen_at"], postgresql_where=sa.text("etag IS NULL"))
    op.create_table(
        "repositories",
        sa.Column("number", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("private", sa.Boolean, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        _moment("created_at"),
        _moment("changed_at"),
    )
    op.execute("CREATE UNIQUE INDEX repositories_name ON repositories (kind, tenant, lower(name))")
    op.create_table(
        "commits",
        _number(),
        sa.Column("sha", sa.Text, primary_key=True),
        sa.Column("parent", sa.Text),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        # path to [SHA-256, bytes, git's id, large]
        sa.Column("files", JSONB, nullable=False),
        _moment("created_at"),
    )
    op.create_table(
        "objects",
        _number(),
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        # whether a commit has it
        sa.Column("committed", sa.Boolean, nullable=False),
        _moment("uploaded_at"),
    )
