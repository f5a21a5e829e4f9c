"""Whose use accounting records."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Pods have the user who created them; of those made before, an ADMIN."""
    op.execute("ALTER TABLE pods ADD COLUMN owner text")
    op.execute(
        """
        UPDATE pods SET owner = coalesce(
            (SELECT min(username) FROM permissions WHERE permissions.pod_id = pods.pod_id AND level = 'ADMIN'), ''
        )
        """
    )
    op.execute("ALTER TABLE pods ALTER COLUMN owner SET NOT NULL")


def downgrade() -> None:
    """Drops the column."""
    op.execute("ALTER TABLE pods DROP COLUMN owner")
