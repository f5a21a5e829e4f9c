"""Alembic's entry: runs the versions on the connection that `upgrade` opened."""

from __future__ import annotations

from alembic import context

from ml_hub.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
