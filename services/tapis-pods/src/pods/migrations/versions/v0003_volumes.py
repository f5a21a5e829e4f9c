"""Volumes and snapshots, and who may do what with them."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the four tables."""
    op.execute(
        """
        CREATE TABLE volumes (
            volume_id text PRIMARY KEY,
            tenant text NOT NULL,
            description text NOT NULL,
            size_limit integer NOT NULL,
            -- its files are not removed yet
            deleted boolean NOT NULL DEFAULT false,
            creation_ts timestamptz NOT NULL DEFAULT now(),
            update_ts timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    op.execute(
        """
        CREATE TABLE snapshots (
            snapshot_id text PRIMARY KEY,
            tenant text NOT NULL,
            -- the volume may be gone, and its name in use again
            source_volume_id text NOT NULL,
            source_volume_path text NOT NULL,
            destination_path text NOT NULL,
            description text NOT NULL,
            size_limit integer NOT NULL,
            -- MiB
            size bigint NOT NULL DEFAULT 0,
            status text NOT NULL DEFAULT 'CREATING' CHECK (status IN ('CREATING', 'AVAILABLE', 'ERROR')),
            status_message text NOT NULL DEFAULT '',
            deleted boolean NOT NULL DEFAULT false,
            creation_ts timestamptz NOT NULL DEFAULT now(),
            update_ts timestamptz NOT NULL DEFAULT now()
        )
        """
    )
    for kind in ("volume", "snapshot"):
        op.execute(
            f"""
            CREATE TABLE {kind}_permissions (
                {kind}_id text NOT NULL REFERENCES {kind}s ON DELETE CASCADE,
                username text NOT NULL,
                level text NOT NULL CHECK (level IN ('READ', 'USER', 'ADMIN')),
                PRIMARY KEY ({kind}_id, username)
            )
            """
        )
        op.execute(f"CREATE INDEX {kind}_permissions_username ON {kind}_permissions (username)")


def downgrade() -> None:
    """Drops the tables with their rows."""
    for kind in ("volume", "snapshot"):
        op.execute(f"DROP TABLE {kind}_permissions")
        op.execute(f"DROP TABLE {kind}s")
