"""Migrations, and row-level security by attack, on a real PostgreSQL."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from strata_bench.services import PostgreSQL, service_commands

from .made_up_year import load, load_models, make_year
from .records import MIGRATIONS, Records, empty_database, migrated_database

TABLES = ("collection", "instance", "node", "pod", "pod_usage", "card_energy", "model_usage", "job",
          "reader", "schema_version")  # fmt: skip
VERSIONS = sorted(MIGRATIONS.glob("*.sql"))


def dump(records: Records) -> str:
    """The schema as SQL, without what names the owner or differs between two dumps."""
    command = [records.server.binaries / "pg_dump", "--schema-only", "-h", records.server.directory, "-U", "admin"]
    options = ["-p", str(records.server.port), "-d", records.name]
    done = subprocess.run([*map(str, command), *options], capture_output=True, text=True, check=True)
    lines = (line for line in done.stdout.splitlines() if not line.startswith("\\"))
    return "\n".join(lines).replace(records.name, "OWNER")


@pytest.fixture(scope="module")
def fresh(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return migrated_database(postgresql, "accounting_fresh", tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="module")
def newest(fresh: Records) -> str:
    """Its schema."""
    return dump(fresh)


@pytest.mark.parametrize("version", range(1, len(VERSIONS) + 1))
def test_every_older_version_becomes_the_newest_with_its_rows(
    postgresql: PostgreSQL, newest: str, tmp_path: Path, version: int
) -> None:
    records = empty_database(postgresql, f"accounting_v{version}", tmp_path)
    with records.connect() as connection:
        connection.execute(
            "CREATE TABLE schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        for number, file in enumerate(VERSIONS[:version], 1):
            connection.execute(file.read_text().encode())
            connection.execute("INSERT INTO schema_version (version) VALUES (%s)", (number,))
        load(connection, make_year(7, users=3, days=3))
        before = rows(connection)
        done = records.run("migrate")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["before"] == version
        assert rows(connection) == before
        assert before["pod"] > 10
    assert dump(records) == newest


def rows(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """How many rows the tables of the first version have."""
    counts = {}
    for table in ("instance", "node", "pod", "pod_usage", "card_energy", "job"):
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608  # names of this module
        assert row is not None
        counts[table] = row[0]
    return counts


def test_migrating_again_and_at_once_changes_nothing(postgresql: PostgreSQL, tmp_path: Path) -> None:
    records = empty_database(postgresql, "accounting_at_once", tmp_path)
    done = service_commands("accounting").at_once([(records.environment, ["migrate"])] * 3)
    assert [process.returncode for process in done] == [0, 0, 0], [process.stderr for process in done]
    assert sorted(json.loads(process.stdout)["before"] for process in done) == [0, len(VERSIONS), len(VERSIONS)]


def test_a_migration_that_fails_leaves_nothing(postgresql: PostgreSQL, tmp_path: Path) -> None:
    records = empty_database(postgresql, "accounting_failing", tmp_path)
    with records.connect() as connection:
        connection.execute("CREATE TABLE job (in_the_way integer)")
        assert records.run("migrate").returncode != 0
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert tables == [("job",)]
        connection.execute("DROP TABLE job")
        assert records.run("migrate").returncode == 0


def test_missing_settings_are_named(fresh: Records) -> None:
    done = records_without(fresh, "ACCOUNTING_DATABASE_HOST").run("migrate")
    assert done.returncode == 2
    assert "ACCOUNTING_DATABASE_HOST" in done.stderr
    assert "Traceback" not in done.stderr


def records_without(records: Records, variable: str) -> Records:
    """The same without one of its variables."""
    environment = {name: value for name, value in records.environment.items() if name != variable}
    return Records(records.server, records.name, environment)


@pytest.fixture(scope="module")
def guarded(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A database with rows of five tenants, and roles of two of them and of none."""
    records = migrated_database(postgresql, "accounting_guarded", tmp_path_factory.mktemp("guarded"))
    for role in ("reader_hep", "reader_bio", "reader_none"):
        postgresql.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{role}-password'")
    with records.connect() as owner:
        load(owner, make_year(11, users=20, days=10))
        load_models(owner)
        owner.execute("INSERT INTO reader VALUES ('reader_hep', 'hep'), ('reader_bio', 'bio')")
    return records


@pytest.fixture
def hep(guarded: Records) -> Iterator[psycopg.Connection[Any]]:
    with guarded.connect("reader_hep") as connection:
        yield connection


def tenants(connection: psycopg.Connection[Any], query: str) -> set[Any]:
    """First column of what a query finds; YEAR is the window of the made-up year."""
    window = query.replace("YEAR", "'2025-01-01Z', '2026-01-01Z'")
    return {row[0] for row in connection.execute(window.encode()).fetchall()}


def test_a_tenant_sees_its_own_rows_through_every_way(guarded: Records, hep: psycopg.Connection[Any]) -> None:
    with guarded.connect() as owner:
        expected = {
            name: owner.execute(f"SELECT count(*) FROM {query}").fetchone()  # noqa: S608  # queries of this module
            for name, query in {
                "pod": "pod WHERE tenant = 'hep'",
                "job": "job WHERE tenant = 'hep'",
                "instance": "instance WHERE project = 'hep'",
                "pod_usage": "pod_usage JOIN pod USING (uid) WHERE tenant = 'hep'",
            }.items()
        }
    for table, count in expected.items():
        assert hep.execute(f"SELECT count(*) FROM {table}").fetchone() == count, table  # noqa: S608  # as above
        assert count is not None
        assert count[0] > 0 or table == "instance", table
    assert tenants(hep, "SELECT tenant FROM pod UNION SELECT tenant FROM job") == {"hep"}
    assert tenants(hep, "SELECT holder FROM allocation(YEAR)") == {"hep"}
    assert tenants(hep, "SELECT tenant FROM work(YEAR)") == {"hep"}
    assert tenants(hep, "SELECT tenant FROM utilisation(YEAR)") == {"hep"}
    assert tenants(hep, "SELECT tenant FROM one_card_tasks(YEAR)") == {"hep"}
    assert tenants(hep, "SELECT tenant FROM idle_cards(YEAR)") <= {"hep"}
    assert tenants(hep, "SELECT tenant FROM reader") == {"hep"}
    assert tenants(hep, "SELECT tenant FROM models(YEAR)") == {"hep"}


def test_asking_for_another_tenant_finds_nothing(hep: psycopg.Connection[Any]) -> None:
    for query in (
        "SELECT 1 FROM allocation(YEAR, 'bio')",
        "SELECT 1 FROM work(YEAR, 'bio')",
        "SELECT 1 FROM measured_hours(YEAR, 'bio')",
        "SELECT 1 FROM pod WHERE tenant IS NULL OR tenant <> 'hep'",
        "SELECT 1 FROM how_allocated WHERE holder IS DISTINCT FROM 'hep'",
        "SELECT 1 FROM used_or_idle WHERE tenant IS DISTINCT FROM 'hep'",
        "SELECT 1 FROM who_does_what WHERE tenant IS DISTINCT FROM 'hep'",
        "SELECT 1 FROM node",
        "SELECT 1 FROM card_energy",
        "SELECT 1 FROM models(YEAR, 'bio')",
        "SELECT 1 FROM model_usage WHERE tenant <> 'hep'",
        "SELECT 1 FROM collection",
    ):
        assert tenants(hep, query) == set(), query


@pytest.mark.parametrize(
    "attack",
    [
        "INSERT INTO reader VALUES ('reader_hep', 'bio')",
        "UPDATE reader SET tenant = 'bio'",
        "DELETE FROM pod",
        "TRUNCATE pod CASCADE",
        "INSERT INTO collection VALUES ('kubernetes', now())",
        "SET ROLE reader_bio",
        "SET ROLE accounting_guarded",
        "SET SESSION AUTHORIZATION reader_bio",
        "ALTER TABLE pod DISABLE ROW LEVEL SECURITY",
        "DROP POLICY own ON pod",
        "CREATE POLICY all_rows ON pod USING (true)",
        "ALTER FUNCTION work SECURITY DEFINER",
        "CREATE OR REPLACE VIEW who_does_what AS SELECT 1",
        "CREATE TABLE public.mine (a integer)",
        "SELECT * FROM schema_version",
        "COPY pod TO PROGRAM 'cat'",
        "SET row_security = off; SELECT count(*) FROM pod",
        "GRANT reader_bio TO reader_hep",
    ],
)
def test_attacks_are_refused(hep: psycopg.Connection[Any], attack: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        hep.execute(attack.encode())


def test_a_function_that_leaks_sees_no_other_rows(hep: psycopg.Connection[Any]) -> None:
    seen: list[str] = []
    hep.add_notice_handler(lambda notice: seen.append(str(notice.message_primary)))
    hep.execute(
        "CREATE FUNCTION pg_temp.leak(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0000000001 AS "
        "$$ BEGIN RAISE NOTICE '%', value; RETURN true; END $$"
    )
    hep.execute("SELECT 1 FROM pod WHERE pg_temp.leak(tenant)")
    hep.execute("SELECT 1 FROM pod_usage JOIN pod USING (uid) WHERE pg_temp.leak(tenant || uid::text)")
    hep.execute("SELECT 1 FROM reader WHERE pg_temp.leak(role || tenant)")
    assert len(seen) > 10
    assert all("hep" in text for text in seen)


def test_tables_of_the_session_do_not_take_the_place_of_the_policies(hep: psycopg.Connection[Any]) -> None:
    hep.execute("CREATE TEMPORARY TABLE reader (role name, tenant text)")
    hep.execute("INSERT INTO pg_temp.reader VALUES ('reader_hep', 'bio')")
    hep.execute("SET search_path = pg_temp, public")
    assert tenants(hep, "SELECT DISTINCT tenant FROM public.pod") == {"hep"}
    hep.execute("SET search_path = public")
    assert tenants(hep, "SELECT tenant FROM public.work(YEAR)") == {"hep"}


def test_a_role_of_no_tenant_sees_nothing(guarded: Records) -> None:
    with guarded.connect("reader_none") as connection:
        for table in TABLES[:-1]:
            assert tenants(connection, "SELECT 1 FROM TABLE".replace("TABLE", table)) == set(), table


def test_an_instance_has_one_size_at_a_time(fresh: Records) -> None:
    insert = (
        "INSERT INTO instance VALUES ('00000000-0000-0000-0000-000000000001', 'p', 'vm', 'm1', 1, 1, 0, NULL, %s, %s)"
    )
    day = [datetime(2025, 1, n, tzinfo=UTC) for n in (1, 2, 3)]
    with fresh.connect() as connection:
        connection.execute(insert.encode(), (day[0], day[1]))
        connection.execute(insert.encode(), (day[1], day[2]))
        with pytest.raises(psycopg.errors.ExclusionViolation):
            connection.execute(insert.encode(), (datetime(2025, 1, 1, 12, tzinfo=UTC), None))
        connection.execute("DELETE FROM instance")


def test_each_version_is_one_file() -> None:
    """Two files with one number would be one version, and one of them never applied."""
    assert [int(file.name.partition("_")[0]) for file in VERSIONS] == list(range(1, len(VERSIONS) + 1))
