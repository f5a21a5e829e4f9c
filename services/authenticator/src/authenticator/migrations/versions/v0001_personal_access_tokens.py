"""Personal access tokens."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the table; the index of the constraint also finds the tokens of one subject."""
    op.execute(
        """
        CREATE TABLE personal_access_tokens (
            id text PRIMARY KEY,
            username text NOT NULL,
            subject text NOT NULL,
            name text NOT NULL,
            created timestamptz NOT NULL DEFAULT now(),
            expires timestamptz NOT NULL,
            last_used timestamptz,
            sealed text NOT NULL,
            UNIQUE (subject, name)
        )
        """
    )


def downgrade() -> None:
    """Drops the table; its tokens cannot be restored."""
    op.execute("DROP TABLE personal_access_tokens")
