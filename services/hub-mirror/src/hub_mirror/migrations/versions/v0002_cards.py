"""Metadata of the card of each commit of a tenant's repository."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; commits of before have none until the next one."""
    op.add_column("commits", sa.Column("card", JSONB, nullable=False, server_default="{}"))
