"""Datasets beside models, the fields of Tapis' answers, and what was read from the hub."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds columns to models, and the tables of datasets and of what was read."""
    op.execute(
        """
        ALTER TABLE models
            ADD COLUMN hub_id text,
            ADD COLUMN disabled boolean NOT NULL DEFAULT false,
            ADD COLUMN gated boolean NOT NULL DEFAULT false,
            ADD COLUMN private boolean NOT NULL DEFAULT false
        """
    )
    op.execute(
        """
        CREATE TABLE datasets (
            id text PRIMARY KEY,
            hub_id text,
            author text,
            downloads bigint NOT NULL,
            likes bigint NOT NULL,
            license text,
            languages text[] NOT NULL DEFAULT '{}',
            tags text[] NOT NULL DEFAULT '{}',
            disabled boolean NOT NULL DEFAULT false,
            gated boolean NOT NULL DEFAULT false,
            private boolean NOT NULL DEFAULT false,
            task_categories text[] NOT NULL DEFAULT '{}',
            size_categories text[] NOT NULL DEFAULT '{}',
            description text,
            citation text,
            paperswithcode_id text,
            created_at timestamptz,
            last_modified timestamptz,
            loaded_at timestamptz NOT NULL DEFAULT now(),
            search_text text NOT NULL,
            search tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, search_text)) STORED
        )
        """
    )
    op.execute("CREATE INDEX datasets_popular ON datasets (downloads DESC, id)")
    op.execute("CREATE INDEX datasets_author ON datasets (author, downloads DESC, id)")
    for column in ("languages", "task_categories", "size_categories", "search"):
        op.execute(f"CREATE INDEX datasets_{column} ON datasets USING gin ({column})")
    op.execute(
        """
        CREATE TABLE fetched (
            kind text,
            id text,
            part text,
            content text,
            size integer NOT NULL,
            fetched_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (kind, id, part)
        )
        """
    )


def downgrade() -> None:
    """Drops what was added, with its rows."""
    op.execute("DROP TABLE fetched")
    op.execute("DROP TABLE datasets")
    op.execute("ALTER TABLE models DROP COLUMN hub_id, DROP COLUMN disabled, DROP COLUMN gated, DROP COLUMN private")
