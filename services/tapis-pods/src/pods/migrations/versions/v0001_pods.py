"""Pods and who may do what with them."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the two tables."""
    op.execute(
        """
        CREATE TABLE pods (
            pod_id text PRIMARY KEY,
            tenant text NOT NULL,
            -- as the owner has it now
            spec jsonb NOT NULL,
            -- counts starts; the pod in Kubernetes names its own
            run integer NOT NULL DEFAULT 1,
            -- what this run was started with; null: not yet
            run_spec jsonb,
            status_requested text NOT NULL CHECK (status_requested IN ('ON', 'OFF', 'RESTART')),
            status text NOT NULL,
            status_container jsonb NOT NULL DEFAULT '{}',
            deleted boolean NOT NULL DEFAULT false,
            user_password text NOT NULL,
            -- end of the log of the last run that ended
            log text NOT NULL DEFAULT '',
            log_run integer NOT NULL DEFAULT 0,
            action_logs text[] NOT NULL DEFAULT '{}',
            creation_ts timestamptz NOT NULL DEFAULT now(),
            update_ts timestamptz NOT NULL DEFAULT now(),
            start_instance_ts timestamptz,
            time_to_stop_ts timestamptz
        )
        """
    )
    op.execute(
        """
        CREATE TABLE permissions (
            pod_id text NOT NULL REFERENCES pods ON DELETE CASCADE,
            username text NOT NULL,
            level text NOT NULL CHECK (level IN ('READ', 'USER', 'ADMIN')),
            PRIMARY KEY (pod_id, username)
        )
        """
    )
    op.execute("CREATE INDEX permissions_username ON permissions (username)")


def downgrade() -> None:
    """Drops the tables with their rows."""
    op.execute("DROP TABLE permissions")
    op.execute("DROP TABLE pods")
