"""The table of notes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the table, with an index for the notes of a tenant."""
    op.create_table(
        "notes",
        sa.Column("number", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_index("notes_tenant", "notes", ["tenant", "number"])
