"""Templates with tags, and images that tenants' administrators allow."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables, and the column of the fields that a pod sets itself."""
    op.execute("ALTER TABLE pods ADD COLUMN overrides jsonb NOT NULL DEFAULT '{}'")
    op.execute(
        """
        CREATE TABLE templates (
            template_id text PRIMARY KEY,
            tenant text NOT NULL,
            description text NOT NULL DEFAULT '',
            metatags text[] NOT NULL DEFAULT '{}',
            archive_message text NOT NULL DEFAULT '',
            creation_ts timestamptz NOT NULL DEFAULT now(),
            update_ts timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    op.execute(
        """
        CREATE TABLE template_permissions (
            template_id text NOT NULL REFERENCES templates ON DELETE CASCADE,
            username text NOT NULL,
            level text NOT NULL CHECK (level IN ('READ', 'USER', 'ADMIN')),
            PRIMARY KEY (template_id, username)
        )
        """
    )
    op.execute("CREATE INDEX template_permissions_username ON template_permissions (username)")
    op.execute(
        """
        CREATE TABLE template_tags (
            -- in the order in which they were added
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            template_id text NOT NULL REFERENCES templates ON DELETE CASCADE,
            tag text NOT NULL,
            timestamp text NOT NULL,
            pod_definition jsonb NOT NULL,
            commit_message text NOT NULL,
            added_by text NOT NULL,
            creation_ts timestamptz NOT NULL DEFAULT now(),
            UNIQUE (template_id, tag, timestamp)
        )
        """
    )
    op.execute(
        """
        CREATE TABLE images (
            image text NOT NULL,
            tenant text NOT NULL,
            description text NOT NULL DEFAULT '',
            added_by text NOT NULL,
            creation_ts timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (image, tenant)
        )
        """
    )


def downgrade() -> None:
    """Drops the tables with their rows."""
    for table in ("images", "template_tags", "template_permissions", "templates"):
        op.execute(f"DROP TABLE {table}")
    op.execute("ALTER TABLE pods DROP COLUMN overrides")
