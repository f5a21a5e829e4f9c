"""Alembic's entry: runs the versions on the connection that `Migrations.upgrade` opened."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
