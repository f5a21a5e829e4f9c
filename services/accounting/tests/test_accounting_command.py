"""`strata accounting` on a database of the tests, and the cloud's instances."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from strata.cli.main import app
from strata.errors import UserError
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata_bench.services import PostgreSQL
from strata_services.accounting import commands
from strata_services.accounting.commands.answers import Work, service_units
from strata_services.accounting.commands.cloud import read_usage, read_usages, record_instances, start_of
from strata_services.accounting.settings import ServiceUnits

from .made_up_year import load, make_year
from .records import Records, migrated_database

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def records(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    database = migrated_database(postgresql, "accounting_command", tmp_path_factory.mktemp("command"))
    with database.connect() as connection:
        load(connection, make_year(3, users=20, days=40))
    return database


@pytest.fixture
def run(state_directory: Path, records: Records, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`run("--json")` → the result of `strata accounting lab --json` over January 2025."""

    @contextlib.contextmanager
    def connect(_: object) -> Iterator[Connection]:
        with records.connect() as connection:
            yield connection

    monkeypatch.setattr(commands, "connect", connect)
    window = ["--from", "2025-01-01", "--to", "2025-02-01"]
    return lambda *options, of=window: CliRunner().invoke(app, ["accounting", "lab", *of, *options])


def test_the_tables_answer_the_questions(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    done = run()
    assert done.exit_code == 0, done.output
    for text in (
        "How were the resources allocated?",
        "used or idle?",
        "Who uses the platform",
        "shrink?",
        "hep",
        "kWh",
    ):
        assert text in done.output


def test_json_has_all_answers(run: Any) -> None:
    usage = json.loads(run("--json").stdout)
    assert usage["start"] == "2025-01-01T00:00:00Z"
    assert {row["level"] for row in usage["allocation"]} == {"node", "instance", "pod"}
    assert all(row["service_units"] == pytest.approx(row["cpu_hours"] + 2 * row["card_hours"]) for row in usage["work"])


def test_csv_and_html_are_written(run: Any, tmp_path: Path) -> None:
    done = run("--csv", str(tmp_path / "csv"), "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 0, done.output
    header, *rows = (tmp_path / "csv" / "allocation.csv").read_text().splitlines()
    assert header == "month,level,holder,cpu_hours,memory_gib_hours,card_hours"
    assert rows
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lab", "--tenant", "nobody"], "--tenant nobody: site lab has no such tenant"),
        (["lab", "--from", "2025-02-01", "--to", "2025-01-01"], "is not before --to"),
        (["nautilus"], "platform.services.accounting is not set"),
    ],
)
def test_errors_are_named(run: Any, arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["accounting", *arguments])
    assert isinstance(done.exception, UserError)
    assert message in done.exception.message
    assert done.exception.fix


def test_a_site_that_is_not_up_reports_it(state_directory: Path) -> None:
    done = CliRunner().invoke(app, ["accounting", "lab"])
    assert isinstance(done.exception, UserError)
    assert "postgresql" in done.exception.message


def test_units_are_the_sites() -> None:
    amounts = {"hours": 1.0, "cpu_hours": 10.0, "memory_gib_hours": 40.0, "card_hours": 3.0}
    work = Work(level="pod", tenant="a", username="b", kind="pod", tasks=1, **amounts)
    assert service_units(work, ServiceUnits()) == 16
    assert service_units(work, ServiceUnits(core=4, card=32, memory_gib=1)) == 176


def test_the_command_is_listed_and_suggested() -> None:
    assert "accounting" in CliRunner().invoke(app, ["--help"]).output
    assert "Did you mean 'accounting'?" in CliRunner().invoke(app, ["acounting", "lab"]).output


VM = "00000000-0000-0000-0000-00000000000"
ALIASES = {"cpu.small": "", "gpu.v100.2": "v100:2", "mixed": "v100:1,t4:2"}
PROJECTS = {"p1": "platform"}
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def usage(number: int, flavor: str, started: datetime, ended: datetime | None = None, project: str = "p1") -> Any:
    """A server as nova 33's os-simple-tenant-usage returns it."""

    def text(time: datetime | None) -> str | None:
        return time.strftime("%Y-%m-%dT%H:%M:%S.000000") if time else None

    server = {
        "flavor": flavor, "hours": 24.0, "instance_id": f"{VM}{number}", "local_gb": 20, "memory_mb": 4096,
        "name": f"vm-{number}", "started_at": text(started), "ended_at": text(ended), "state": "active",
        "tenant_id": project, "uptime": 86400, "vcpus": 4,
    }  # fmt: skip
    return {"tenant_id": project, "server_usages": [server]}


@pytest.fixture
def connection(records: Records) -> Iterator[Connection]:
    with records.connect() as opened:
        opened.execute("TRUNCATE instance; DELETE FROM collection WHERE source = 'nova'")
        yield opened


def collect(connection: Connection, at: datetime, *usages: Any) -> list[Any]:
    record_instances(connection, read_usage(usages, ALIASES, PROJECTS), at)
    return connection.execute(
        "SELECT name, project, flavor, cards, card, starts, ends FROM instance ORDER BY name, starts"
    ).fetchall()


class Answer(SimpleNamespace):
    status_code = 200

    def json(self) -> Any:
        return vars(self)


def test_a_member_asks_for_the_sites_own_project() -> None:
    """nova refuses everyone's usage to a member (tests/contract/openstack/test_member_rights.py)."""
    asked = {"/os-simple-tenant-usage/p1": Answer(tenant_usage=usage(1, "cpu.small", START))}
    nova = SimpleNamespace(get=lambda path, **_: asked[path])
    cloud: Any = SimpleNamespace(compute=nova, current_project_id="p1")
    model = load_site(find_site("campus")).cloud
    assert model is not None
    usages, names = read_usages(cloud, model, {"start": "2026-03-01T00:00:00"})
    (instance,) = read_usage(usages, ALIASES, names)
    assert (instance.name, instance.project) == ("vm-1", "campus")
    asked["/os-simple-tenant-usage/p1"] = Answer(tenant_usage={})
    assert read_usages(cloud, model, {})[0] == []


def test_instances_have_their_cards_project_and_history(connection: Connection) -> None:
    day = timedelta(days=1)
    assert start_of(connection, START) == START - 365 * day
    seen = [usage(1, "cpu.small", START), usage(2, "gpu.v100.2", START, START + day, "gone"), usage(3, "mixed", START)]
    first = collect(connection, START + 2 * day, *seen)
    assert first == [
        ("vm-1", "platform", "cpu.small", 0, None, START, None),
        ("vm-2", "gone", "gpu.v100.2", 2, "v100", START, START + day),
        ("vm-3", "platform", "mixed", 3, "t4,v100", START, None),
    ]
    assert collect(connection, START + 3 * day, *seen) == first, "the same again adds nothing"
    assert start_of(connection, START + 4 * day) == START + 2 * day

    # resized, deleted, and a third that nova has forgotten
    later = collect(
        connection, START + 4 * day, usage(1, "gpu.v100.2", START), usage(2, "gpu.v100.2", START, START + day, "gone")
    )
    assert later == [
        ("vm-1", "platform", "cpu.small", 0, None, START, START + 4 * day),
        ("vm-1", "platform", "gpu.v100.2", 2, "v100", START + 4 * day, None),
        ("vm-2", "gone", "gpu.v100.2", 2, "v100", START, START + day),
        ("vm-3", "platform", "mixed", 3, "t4,v100", START, START + 3 * day),
    ]
    last = collect(connection, START + 5 * day, usage(1, "gpu.v100.2", START, START + 4.5 * day))
    assert last[1][-1] == START + 4.5 * day
