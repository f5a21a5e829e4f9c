"""Versions of the database schema, applied by Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

MIGRATION_LOCK = 0x6D6C687562
"""Key of the advisory lock that lets one of several replicas migrate or load at a time ("mlhub")."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str:
    """The newest version that this release knows."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    assert found is not None
    return found


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Brings the database to the newest version, in one transaction; nothing happens when it is there.

    Returns:
        The version found and the version left.
    """
    config = _config()
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        before = MigrationContext.configure(connection).get_current_revision()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        after = MigrationContext.configure(connection).get_current_revision()
    assert after is not None
    return before, after
