"""Pods that are stopped since their GPUs are idle, and why a run was stopped."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds when a pod that was warned is stopped, and the reason of a stop that was not requested."""
    op.execute("ALTER TABLE pods ADD COLUMN gpu_idle_stop_ts timestamptz")
    op.execute("ALTER TABLE pods ADD COLUMN stop_reason text NOT NULL DEFAULT ''")


def downgrade() -> None:
    """Drops both."""
    op.execute("ALTER TABLE pods DROP COLUMN stop_reason")
    op.execute("ALTER TABLE pods DROP COLUMN gpu_idle_stop_ts")
