"""The table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """One row."""
    table = op.create_table("greetings", sa.Column("text", sa.Text, primary_key=True))
    op.bulk_insert(table, [{"text": "hello"}])
