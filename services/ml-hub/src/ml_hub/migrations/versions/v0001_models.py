"""The catalogue of models with full text search."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the table and an index for each filter."""
    op.execute(
        """
        CREATE TABLE models (
            id text PRIMARY KEY,
            author text,
            downloads bigint NOT NULL,
            likes bigint NOT NULL,
            pipeline_tag text,
            library_name text,
            license text,
            languages text[] NOT NULL DEFAULT '{}',
            datasets text[] NOT NULL DEFAULT '{}',
            tags text[] NOT NULL DEFAULT '{}',
            created_at timestamptz,
            last_modified timestamptz,
            loaded_at timestamptz NOT NULL DEFAULT now(),
            search_text text NOT NULL,
            search tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, search_text)) STORED
        )
        """
    )
    op.execute("CREATE INDEX models_popular ON models (downloads DESC, id)")
    for column in ("author", "pipeline_tag", "library_name"):
        op.execute(f"CREATE INDEX models_{column} ON models ({column}, downloads DESC, id)")
    for column in ("languages", "datasets", "search"):
        op.execute(f"CREATE INDEX models_{column} ON models USING gin ({column})")


def downgrade() -> None:
    """Drops the table with its rows."""
    op.execute("DROP TABLE models")
