"""Versions of a service's database schema, applied by Alembic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

_LOCK = 0x6D6C687562  # the same in all releases, which may migrate one database at once; the number means nothing


def lock(connection: Connection) -> None:
    """Lets one of several replicas migrate or load at a time, until the transaction ends."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


@dataclass(frozen=True)
class Migrations:
    """The versions of one service.

    Args:
        versions: folder of the modules, one for each version; their names sort as the versions do.
    """

    versions: Path

    def head(self) -> str:
        """The newest version that this release knows."""
        revision = ScriptDirectory.from_config(self._config()).get_current_head()
        assert revision is not None
        return revision

    def upgrade(self, engine: Engine) -> tuple[str | None, str]:
        """Brings the database to the newest version, in one transaction; nothing happens when it is there.

        Returns:
            The version found and the version left.
        """
        config = self._config()
        with engine.begin() as connection:
            lock(connection)
            before = MigrationContext.configure(connection).get_current_revision()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            after = MigrationContext.configure(connection).get_current_revision()
        assert after is not None
        return before, after

    def _config(self) -> Config:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "alembic_environment"))
        config.set_main_option("version_locations", str(self.versions))
        config.set_main_option("path_separator", "os")
        return config
