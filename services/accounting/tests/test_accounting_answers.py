"""The answers about a made-up year, against a reference that is computed another way; intervals by properties."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_bench.services import PostgreSQL
from strata_services.accounting.commands.answers import Answers, Row, ask
from strata_services.accounting.commands.page import render_page
from strata_services.accounting.commands.tables import tables, write_csv
from strata_services.accounting.settings import ServiceUnits

from .made_up_year import MODEL, YEAR_END, YEAR_START, Year, load, load_models, make_year
from .records import migrated_database
from .reference import Reference

SEED = 20261122
UNITS = ServiceUnits()
WINDOWS = {
    "the year": (YEAR_START, YEAR_END),
    "the first quarter": (YEAR_START, datetime(2025, 4, 1, tzinfo=UTC)),
    "from the middle of a month to the middle of a day": (
        datetime(2025, 3, 15, 7, tzinfo=UTC),
        datetime(2025, 5, 2, 13, tzinfo=UTC),
    ),
    "one hour": (datetime(2025, 7, 2, 10, tzinfo=UTC), datetime(2025, 7, 2, 11, tzinfo=UTC)),
    "before any record but instances": (datetime(2024, 12, 31, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
}


@pytest.fixture(scope="module", params=[30, pytest.param(100, marks=pytest.mark.nightly)], ids="{} users".format)
def users(request: pytest.FixtureRequest) -> int:
    """How many the year has: it is the loading of many that takes long."""
    return int(request.param)


@pytest.fixture(scope="module")
def year(users: int) -> Year:
    return make_year(SEED, users)


@pytest.fixture(scope="module")
def connection(
    postgresql: PostgreSQL, users: int, year: Year, tmp_path_factory: pytest.TempPathFactory
) -> psycopg.Connection[Any]:
    connection = migrated_database(postgresql, f"accounting_{users}_users", tmp_path_factory.mktemp("year")).connect()
    load(connection, year)
    load_models(connection)
    return connection


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.nightly if name == "the year" else ()) for name in WINDOWS],
    ids=str,
)
def window(request: pytest.FixtureRequest) -> tuple[datetime, datetime]:
    return WINDOWS[request.param]


@pytest.fixture(scope="module")
def answers(connection: psycopg.Connection[Any], window: tuple[datetime, datetime]) -> Answers:
    return ask(connection, "made-up", *window, None, UNITS)


@pytest.fixture(scope="module")
def reference(year: Year, window: tuple[datetime, datetime]) -> Reference:
    return Reference(year, *window)


def close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-6)


def assert_same(actual: Sequence[Row], expected: Sequence[Row]) -> None:
    """The same rows, but for the order in which PostgreSQL adds up."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.model_dump() == {
            name: close(value) if isinstance(value, float) else value for name, value in other.model_dump().items()
        }


def test_allocation(answers: Answers, reference: Reference) -> None:
    actual = {(r.month, r.level, r.holder): (r.cpu_hours, r.memory_gib_hours, r.card_hours) for r in answers.allocation}
    expected = reference.allocation()
    assert actual.keys() == expected.keys()
    for key, amount in expected.items():
        assert actual[key] == close(tuple(amount)), key


def test_utilisation(answers: Answers, reference: Reference) -> None:
    expected = reference.utilisation()
    allocated = {(r.month, r.holder): r for r in answers.allocation if r.level == "pod"}
    assert expected.keys() <= {(r.month, r.tenant) for r in answers.utilisation} == allocated.keys()
    for row in answers.utilisation:
        whole = allocated[row.month, row.tenant]
        assert (row.cpu_hours, row.card_hours) == close((whole.cpu_hours, whole.card_hours))
        measured = (
            row.cpu_hours_measured,
            row.cpu_hours_used,
            row.memory_gib_hours_measured,
            row.memory_gib_hours_used,
            row.card_hours_measured,
            row.card_hours_busy,
        )
        assert measured == close(expected.get((row.month, row.tenant), (0.0,) * 6)), (row.month, row.tenant)


def test_idle_cards(answers: Answers, reference: Reference) -> None:
    assert [row.card_hours_idle for row in answers.idle_cards] == close(reference.idle_cards())


def test_work_and_service_units(answers: Answers, reference: Reference) -> None:
    expected = reference.work()
    assert {(r.level, r.tenant, r.username, r.kind) for r in answers.work} == expected.keys()
    for row in answers.work:
        tasks, hours, cpu, card = expected[row.level, row.tenant, row.username, row.kind]
        assert (row.tasks, row.hours, row.cpu_hours, row.card_hours) == close((tasks, hours, cpu, card))
        assert row.service_units == close(cpu + 2 * card)


def test_one_card_tasks(answers: Answers, reference: Reference) -> None:
    actual = {
        (r.level, r.tenant, r.kind): (
            r.tasks,
            r.cpus_requested,
            r.cpus_p50,
            r.cpus_p95,
            r.memory_gib_requested,
            r.memory_gib_p50,
            r.memory_gib_p95,
        )
        for r in answers.one_card_tasks
    }
    expected = reference.one_card_tasks()
    assert actual.keys() == expected.keys()
    for key, row in expected.items():
        assert actual[key] == close(row), key


def test_sessions(answers: Answers, reference: Reference) -> None:
    assert {r.month: (r.users, r.sessions, r.most_at_once) for r in answers.sessions} == reference.sessions()


def test_energy(answers: Answers, reference: Reference) -> None:
    assert sum(row.kwh for row in answers.energy) == close(reference.energy())


def test_models(answers: Answers) -> None:
    noons = (YEAR_START + timedelta(days=day, hours=12) for day in range(365))
    days = sum(answers.start <= noon < answers.end for noon in noons)
    expected = [(tenant, MODEL, 2 * days, 30 * days, 10 * days) for tenant in ("bio", "hep") if days]
    assert [(r.tenant, r.model, r.requests, r.tokens_in, r.tokens_out) for r in answers.models] == expected


def test_one_tenant_gets_its_part(connection: psycopg.Connection[Any], answers: Answers) -> None:
    own = ask(connection, "made-up", answers.start, answers.end, "hep", UNITS)
    assert_same(own.allocation, [r for r in answers.allocation if r.holder == "hep"])
    assert_same(own.utilisation, [r for r in answers.utilisation if r.tenant == "hep"])
    assert_same(own.work, [r for r in answers.work if r.tenant == "hep"])
    assert_same(own.one_card_tasks, [r for r in answers.one_card_tasks if r.tenant == "hep"])
    assert own.models == tuple(r for r in answers.models if r.tenant == "hep")
    assert own.energy == ()


def test_every_table_and_picture_is_drawn(answers: Answers, tmp_path: Path) -> None:
    page = render_page(answers)
    assert "http" not in page
    for table in tables(answers):
        assert (table.title in page) == bool(table.rows)
    assert page.count("<svg") == page.count("</svg>")
    assert ("<rect" in page) == bool(answers.allocation)
    assert write_csv(answers, tmp_path) == 9
    assert (tmp_path / "work.csv").read_text().count("\n") == len(answers.work) + 1


def test_a_page_shows_names_as_they_are(answers: Answers) -> None:
    evil = answers.model_copy(update={"site": "<script>alert(1)</script>"})
    assert "<script>" not in render_page(evil)


def test_a_spreadsheet_computes_no_name(answers: Answers, tmp_path: Path) -> None:
    evil = answers.work[0].model_copy(update={"username": "=1+1"})
    write_csv(answers.model_copy(update={"work": (evil,)}), tmp_path)
    assert ",'=1+1," in (tmp_path / "work.csv").read_text()


ZERO = datetime(2025, 6, 1, tzinfo=UTC)
moments = st.integers(-50, 50).map(lambda minutes: ZERO + timedelta(minutes=minutes))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pair=st.tuples(moments, moments).map(sorted), open_end=st.booleans(), window=st.tuples(moments, moments).map(sorted)
)
def test_seconds_within_counts_the_minutes_of_both(
    connection: psycopg.Connection[Any], pair: list[datetime], open_end: bool, window: list[datetime]
) -> None:
    starts, ends = pair[0], None if open_end else pair[1]
    row = connection.execute(
        "SELECT seconds_within(%s, %s::timestamptz, %s, %s)", (starts, ends, window[0], window[1])
    ).fetchone()
    minutes = [window[0] + timedelta(minutes=n) for n in range(int((window[1] - window[0]).total_seconds()) // 60)]
    inside = [minute for minute in minutes if starts <= minute and (ends is None or minute < ends)]
    assert row is not None
    assert row[0] == 60 * len(inside)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.datetimes(datetime(2023, 1, 1), datetime(2025, 12, 31)),
    length=st.timedeltas(timedelta(seconds=1), timedelta(days=200)),
)
def test_months_cover_the_window_once(connection: psycopg.Connection[Any], start: datetime, length: timedelta) -> None:
    start = start.replace(tzinfo=UTC)
    rows = connection.execute(
        "SELECT month, month_from, month_to FROM months(%s, %s) ORDER BY month", (start, start + length)
    ).fetchall()
    assert rows[0][1] == start
    assert rows[-1][2] == start + length
    for (month, begin, end), following in zip(rows, [*rows[1:], None], strict=True):
        assert begin < end
        assert begin.astimezone(UTC).date().replace(day=1) == month
        assert following is None or following[1] == end


def test_nothing_later_than_now_counts(connection: psycopg.Connection[Any]) -> None:
    now = datetime.now(UTC)
    later = ask(connection, "made-up", now - timedelta(hours=2), now + timedelta(days=40), None, UNITS)
    offered = sum(row.cpu_hours for row in later.allocation if row.level == "node")
    assert offered == pytest.approx(12 * 64 * 2, rel=0.02)
    assert ask(connection, "made-up", now + timedelta(days=1), now + timedelta(days=2), None, UNITS).work == ()
