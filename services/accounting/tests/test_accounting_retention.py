"""Old records are removed, once, and answers about the months that are kept do not change."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

from strata_bench.services import PostgreSQL, service_python
from strata_services.accounting.commands.answers import ask, incomplete_before
from strata_services.accounting.settings import Accounting, ServiceUnits

from .made_up_year import YEAR_END, YEAR_START, load, load_models, make_year
from .records import Records, migrated_database

SEED = 20261124
RECORDS, USAGE = datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)
"""Until when records, and usage, are removed."""
REMOVE = "SELECT * FROM remove_before(%s, %s, %s)"


@pytest.fixture(scope="module")
def records(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return migrated_database(postgresql, "accounting_retention", tmp_path_factory.mktemp("retention"))


@pytest.fixture(scope="module")
def connection(records: Records) -> psycopg.Connection[Any]:
    connection = records.connect()
    load(connection, make_year(SEED, users=18))
    load_models(connection)
    return connection


def about(connection: psycopg.Connection[Any], start: datetime) -> dict[str, Any]:
    """All answers; sums to the digits that the order of adding up does not change."""
    answers = ask(connection, "made-up", start, YEAR_END, None, ServiceUnits())
    return {name: rounded(value) for name, value in answers.model_dump().items()}


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_answers_about_what_is_kept_do_not_change(connection: psycopg.Connection[Any]) -> None:
    """Of a year of 18 users, half of the usage and two months of the rest are removed."""
    later, whole = about(connection, USAGE), about(connection, RECORDS)
    year = about(connection, YEAR_START)
    removed = dict(connection.execute(REMOVE, (USAGE, RECORDS, None)).fetchall())
    assert removed["usage"] > 10_000
    assert removed["records"] > 500
    assert removed["measurements"] == 0
    assert about(connection, USAGE) == later
    again = about(connection, RECORDS)
    for answer in ("allocation", "work", "sessions"):
        assert again[answer] == whole[answer], answer
    assert again["utilisation"] != whole["utilisation"]
    assert len(about(connection, YEAR_START)["work"]) <= len(year["work"])
    assert about(connection, YEAR_START)["allocation"] != year["allocation"]
    for table, column, limit in (
        ("pod_usage", "hour", USAGE),
        ("card_energy", "hour", USAGE),
        ("model_usage", "hour", USAGE),
        ("pod", "ends", RECORDS),
    ):
        (oldest,) = connection.execute(f"SELECT min({column}) FROM {table}").fetchall()[0]  # noqa: S608  # of the test
        assert oldest >= limit, table
    assert incomplete_before(connection, YEAR_START) == USAGE
    assert incomplete_before(connection, USAGE) is None


def test_a_second_run_removes_nothing(connection: psycopg.Connection[Any]) -> None:
    connection.execute(REMOVE, (USAGE, RECORDS, None))
    before = about(connection, YEAR_START)
    assert set(dict(connection.execute(REMOVE, (USAGE, RECORDS, None)).fetchall()).values()) == {0}
    # a shorter limit restores nothing, so it does not say so either
    connection.execute(REMOVE, (RECORDS, RECORDS, None))
    assert incomplete_before(connection, YEAR_START) == USAGE
    assert about(connection, YEAR_START) == before


def test_measurements_are_removed_by_age_alone(connection: psycopg.Connection[Any]) -> None:
    """Security is forced on their owner, who without saying so removes none."""

    def times() -> set[datetime]:
        with connection.transaction():
            connection.execute("SELECT set_config('accounting.tenants', 'hep', true)")
            return {row[0] for row in connection.execute("SELECT at FROM measurement").fetchall()}

    old, new = RECORDS - timedelta(seconds=1), RECORDS
    with connection.transaction():
        connection.execute("SELECT set_config('accounting.tenants', 'hep', true)")
        connection.execute("SELECT set_config('accounting.username', 'ada', true)")
        for at in (old, new):
            connection.execute(
                "INSERT INTO measurement (tenant, username, name, value, at) VALUES ('hep', 'ada', 'loss', 1, %s)",
                (at,),
            )
        connection.execute("DELETE FROM measurement")
    assert times() == {old, new}
    assert dict(connection.execute(REMOVE, (USAGE, RECORDS, RECORDS)).fetchall())["measurements"] == 1
    assert times() == {new}
    connection.execute("DELETE FROM measurement")
    assert times() == {new}


def test_the_collector_removes_once_a_day(records: Records) -> None:
    """At the first of the month so long before now, whatever its own clock states."""
    with records.connect() as connection:
        connection.execute("DELETE FROM removed")
    apply(records, "now")
    with records.connect() as connection:
        limits = dict(connection.execute("SELECT record, before FROM removed").fetchall())
        now = datetime.now(UTC)
        assert limits["usage"] == datetime(now.year - 1, now.month, 1, tzinfo=UTC)
        assert limits["records"] == datetime(now.year - 2, now.month, 1, tzinfo=UTC)
    assert apply(records, "now + timedelta(minutes=5)") == {}
    assert apply(records, "now - timedelta(days=400)") == {"usage": 0, "records": 0, "measurements": 0}
    with records.connect() as connection:
        connection.execute("DELETE FROM collection WHERE source = 'retention'")
    apply(records, "now + timedelta(days=4000)")
    with records.connect() as connection:
        assert dict(connection.execute("SELECT record, before FROM removed").fetchall()) == limits


def apply(records: Records, now: str) -> dict[str, int]:
    """What the service's module removes at a time, as its own process."""
    text = f"""
import json
from datetime import UTC, datetime, timedelta
from accounting.retention import Retention, apply
from accounting.settings import DatabaseSettings
now = datetime.now(UTC)
with DatabaseSettings().connect() as connection:
    print(json.dumps(apply(connection, Retention(usage=12, records=24), {now})))
"""
    command = [str(service_python("accounting")), "-c", text]
    done = subprocess.run(
        command, env=dict(records.environment), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize(
    ("wrong", "text"),
    [({"usage": 11}, "greater than or equal to 12"), ({"usage": 61}, "cannot be kept longer than records")],
)
def test_a_retention_that_makes_no_sense_is_refused(wrong: dict[str, int], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Accounting.model_validate({"retention": wrong})
