"""Databases with the service's schema, and the service as its own process."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from strata.site.paths import REPOSITORY
from strata_bench.services import PostgreSQL, service_commands

MIGRATIONS = REPOSITORY / "services/accounting/src/accounting/migrations"


@dataclass(frozen=True)
class Records:
    """A database of the service.

    Args:
        server: that it is on.
        name: of the database, and of its owner.
        environment: of the service's processes.
    """

    server: PostgreSQL
    name: str
    environment: Mapping[str, str]

    def connect(self, role: str | None = None) -> psycopg.Connection[Any]:
        """A connection as the owner, or as a role with the password `<role>-password`."""
        role = role or self.name
        return psycopg.connect(
            host="localhost",
            port=self.server.port,
            dbname=self.name,
            user=role,
            password=f"{role}-password",
            sslmode="require",
            autocommit=True,
        )

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the service to its end."""
        return service_commands("accounting")({**self.environment, **environment}, *arguments)


def empty_database(server: PostgreSQL, name: str, directory: Path) -> Records:
    """A database without a schema."""
    environment = server.create_database(name, "ACCOUNTING")
    password = directory / "password"
    password.write_text(environment.pop("ACCOUNTING_DATABASE_PASSWORD") + "\n")
    return Records(server, name, environment | {"ACCOUNTING_DATABASE_PASSWORD_FILE": str(password)})


def migrated_database(server: PostgreSQL, name: str, directory: Path) -> Records:
    """A database with the newest schema."""
    records = empty_database(server, name, directory)
    done = records.run("migrate")
    assert done.returncode == 0, done.stderr
    return records
