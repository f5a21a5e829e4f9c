"""The reader of the batch system's history as a process, between a made-up access point and a real PostgreSQL."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from strata_bench.services import PostgreSQL, service_python
from strata_bench.waiting import eventually
from strata_services.accounting.commands.answers import ask
from strata_services.accounting.commands.tables import tables
from strata_services.accounting.settings import ServiceUnits

from .records import Records, migrated_database

WAIT_SECONDS = 180.0
END = datetime(2026, 11, 22, 12, tzinfo=UTC)
CLIENT = '''
"""HTCondor's client as far as the reader asks: a history newest first, until an expression holds."""
import json, os, pathlib
from types import SimpleNamespace
DaemonType = SimpleNamespace(Schedd=3)
class HTCondorException(Exception):
    pass
class Ad(dict):
    eval = dict.__getitem__
class Collector:
    def __init__(self, host):
        assert host == "central-manager:9618"
    def locate(self, kind, name):
        assert name in ("research@example.org", "teaching@example.org")
        return name
class Schedd:
    def __init__(self, name):
        directory = pathlib.Path(os.environ["_CONDOR_SEC_TOKEN_DIRECTORY"])
        assert [(f.read_text(), f.stat().st_mode & 0o77) for f in directory.iterdir()] == [("a-token\\n", 0)]
        text = pathlib.Path(os.environ["POOL"]).read_text()
        if text == "down":
            raise HTCondorException("no answer")
        self.pool = json.loads(text)
        self.pool = self.pool.get(name, self.pool)
        if self.pool == "down":
            raise HTCondorException("no answer")
    def history(self, constraint, projection, since):
        assert constraint == "true"
        for ad in self.pool["history"]:
            if since == 'GlobalJobId == "%s"' % ad["GlobalJobId"]:
                return
            yield Ad(ad)
    def query(self, constraint, projection):
        assert constraint == "JobStatus == 4"
        return [Ad(ad) for ad in self.pool["completed"]]
'''


def job(number: int, ended: datetime = END, **attributes: Any) -> dict[str, Any]:
    """A finished job's ClassAd, as far as it is collected: it ran twice, for 600 s in all."""
    return {
        "GlobalJobId": f"access-point@example.org#{number}.0#1795348800", "Owner": "research.ada",
        "AcctGroup": "research", "AcctGroupUser": "ada", "ExitCode": 0,
        "QDate": int((END - timedelta(days=1)).timestamp()),
        "CompletionDate": int(ended.timestamp()), "EnteredCurrentStatus": int(ended.timestamp()),
        "JobStartDate": int((ended - timedelta(hours=5)).timestamp()), "RemoteWallClockTime": 600.0, "RequestCpus": 4,
        "RequestMemory": 2048, "RequestGPUs": 1, "CumulativeRemoteUserCpu": 1100.0, "CumulativeRemoteSysCpu": 100.0,
        "RemoteUserCpu": 500.0, "RemoteSysCpu": 50.0, "ResidentSetSize_RAW": 1024, **attributes,
    }  # fmt: skip


class Reading:
    """The process, and the pool that it reads."""

    def __init__(self, records: Records, connection: psycopg.Connection[Any], directory: Path) -> None:
        self.connection, self.pool, self.log = connection, directory / "pool.json", directory / "log"
        (directory / "htcondor2.py").write_text(CLIENT)
        (directory / "token").write_text("a-token")
        self.environment = {
            **records.environment, "PYTHONPATH": str(directory), "POOL": str(self.pool), "ACCOUNTING_JOBS_SECONDS": "1",
            "ACCOUNTING_HTCONDOR_COLLECTOR": "central-manager:9618", "ACCOUNTING_HTCONDOR_DOMAIN": "example.org",
            "ACCOUNTING_HTCONDOR_SCHEDDS": "research@example.org",
            "ACCOUNTING_HTCONDOR_TOKEN_FILE": str(directory / "token"),
            "ACCOUNTING_JOBS_ALIVE_FILE": str(directory / "alive"),
        }  # fmt: skip

    def put(self, history: list[dict[str, Any]], completed: list[dict[str, Any]]) -> None:
        """Changes the pool; the history is newest first."""
        new = self.pool.with_suffix(".new")
        new.write_text(json.dumps({"history": history, "completed": completed}))
        new.rename(self.pool)

    def until(self, condition: Callable[[], object]) -> None:
        """Runs the process until a condition holds, and kills it."""
        command = [str(service_python("accounting")), "-m", "accounting", "jobs"]
        with self.log.open("ab") as log, subprocess.Popen(command, env=self.environment, stdout=log, stderr=log) as run:
            try:
                eventually(
                    condition, WAIT_SECONDS, "the jobs are read", pause=0.05,
                    hopeless=lambda: None if run.poll() is None else self.log.read_text(),
                )  # fmt: skip
            finally:
                run.kill()

    def readings(self) -> list[int]:
        """How many jobs each reading added."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]
        return [line["new"] for line in lines if "new" in line]

    def jobs(self) -> list[Any]:
        """All rows."""
        return self.connection.execute("SELECT * FROM job ORDER BY global_job_id").fetchall()


@pytest.fixture(scope="module")
def database(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return migrated_database(postgresql, "accounting_jobs", tmp_path_factory.mktemp("jobs"))


@pytest.fixture
def reading(database: Records, tmp_path: Path) -> Iterator[Reading]:
    with database.connect() as connection:
        connection.execute("TRUNCATE job, collection")
        yield Reading(database, connection, tmp_path)


def test_jobs_are_recorded_as_what_they_were(reading: Reading) -> None:
    never: dict[str, Any] = {"JobStartDate": None, "RemoteWallClockTime": 0.0, "CompletionDate": 0, "ExitCode": None}
    reading.put([job(1), job(2, **never)], [])
    reading.until(lambda: len(reading.jobs()) == 2)
    ran, removed = (row[2:] for row in reading.jobs())
    day, gib = timedelta(days=1), 2**30
    # the hours between two runs do not count
    start = END - timedelta(seconds=600)
    assert ran == ("ada", 4.0, 2 * gib, 1, None, END - day, start, END, 1200.0, 2**20, 0, None, 0)
    assert removed == ("ada", 4.0, 2 * gib, 1, None, END - day, None, END, None, None, None, None, None)


def test_no_attribute_that_an_owner_chose_stops_the_record(reading: Reading) -> None:
    """Values beyond the columns' types are bounded; the jobs after it are recorded too."""
    numbers: dict[str, Any] = dict.fromkeys(
        ("BytesRecvd", "RequestMemory", "RequestGPUs", "RequestCpus", "ResidentSetSize_RAW"), 1e300
    )
    times: dict[str, Any] = {"QDate": 10**40, "RemoteWallClockTime": float("inf"), "RemoteUserCpu": float("nan")}
    hostile = job(1, **numbers, **times, ExitCode=2**40, JobBatchName="\x1b[31mred\x00" + 300 * "x")
    late = job(2, CompletionDate=1e18, EnteredCurrentStatus=float("inf"), RemoteWallClockTime=1e18)
    reading.put([job(4), job(3, RemoteWallClockTime=1e18), late, hostile], [])
    reading.until(lambda: len(reading.jobs()) == 4)
    bounded, without_end, long, usual = reading.jobs()
    assert bounded[4:6] == (2**63 - 1, 2**31 - 1)
    assert bounded[-3:] == (None, f"[31mred{248 * 'x'}", 2**53)
    assert (without_end[2], *without_end[8:10]) == ("ada", None, None)
    assert long[8] == datetime(1970, 1, 1, tzinfo=UTC)
    assert usual[9] == END


def test_jobs_of_one_name_are_a_batch(reading: Reading) -> None:
    """Two of its three jobs overlap, the only one of another took no second; another user's batch of the same name is
    another one."""
    infer: dict[str, Any] = {"JobBatchName": "infer", "BytesRecvd": 2**29}
    ends = [END - timedelta(seconds=seconds) for seconds in (0, 300, 3000)]
    jobs = [job(number, at, **infer) for number, at in enumerate(ends)]
    short = job(7, JobBatchName="train", RemoteWallClockTime=0.0)
    of_bob = job(4, **infer, AcctGroupUser="bob")
    reading.put([*jobs, of_bob, job(5), job(6, END + timedelta(days=2), **infer), short], [])
    reading.until(lambda: len(reading.jobs()) == 7)
    window = (END - timedelta(days=1), END + timedelta(days=1))
    answers = ask(reading.connection, "lab", *window, None, ServiceUnits())
    ada, train, bob = sorted(answers.batches, key=lambda batch: (batch.username, batch.batch))
    assert (train.tasks, train.tasks_at_once, train.cpus_at_once, train.cards_at_once) == (1, 1, 4.0, 1)
    assert (ada.tenant, ada.username, ada.batch, ada.tasks, ada.tasks_at_once) == ("research", "ada", "infer", 3, 2)
    assert (ada.cpus_at_once, ada.cards_at_once, ada.memory_gib_at_once) == (8.0, 2, 4.0)
    assert (ada.received_gib, ada.cpu_hours_used) == (1.5, 1.0)
    assert (ada.starts, ada.ends) == (END - timedelta(seconds=3600), END)
    assert (bob.username, bob.tasks, bob.tasks_at_once) == ("bob", 1, 1)
    (table,) = (table for table in tables(answers) if table.title.startswith("Batches"))
    assert table.rows[0] == ("research", "ada", "infer", 3, 2, 8.0, 2, 4.0, 1536.0, 60.0)


def test_every_job_is_recorded_once_through_restarts(reading: Reading) -> None:
    waiting = job(1, END - timedelta(days=9))
    reading.put([job(2)], [waiting])
    reading.until(lambda: len(reading.jobs()) == 2)
    before = reading.jobs()
    # fetched after nine days: newer in the history than jobs that ended later
    reading.put([waiting, job(4), job(3), job(2)], [])
    reading.until(lambda: len(reading.jobs()) == 4)
    assert reading.jobs()[:2] == before
    reading.until(lambda: reading.readings()[-2:] == [0, 0])
    assert sum(reading.readings()) <= 4
    # what was read last is no longer kept: all that is there is read
    reading.put([job(6), job(5), job(4)], [])
    reading.until(lambda: len(reading.jobs()) == 6)


def test_a_pool_that_is_down_is_asked_again(reading: Reading) -> None:
    reading.pool.write_text("down")
    reading.until(lambda: reading.log.read_text().count("no answer") > 1)
    assert reading.jobs() == []
    reading.put([job(1)], [])
    reading.until(reading.jobs)


def test_a_schedd_that_is_silent_holds_up_no_other(reading: Reading) -> None:
    """What the other has is recorded; the time of the reading stays, and the first is read from where it was."""
    reading.environment["ACCOUNTING_HTCONDOR_SCHEDDS"] = "research@example.org,teaching@example.org"
    pool = {"research@example.org": {"history": [job(1)], "completed": []}, "teaching@example.org": "down"}
    reading.pool.write_text(json.dumps(pool))
    reading.until(lambda: len(reading.jobs()) == 1 and "HTCondor teaching@example.org" in reading.log.read_text())
    (newest,) = reading.connection.execute("SELECT newest FROM collection WHERE source = 'htcondor'").fetchone() or (
        "",
    )
    assert json.loads(str(newest)) == {"research@example.org": job(1)["GlobalJobId"]}
    reading.pool.write_text(json.dumps({**pool, "teaching@example.org": {"history": [job(2)], "completed": []}}))
    reading.until(lambda: len(reading.jobs()) == 2)


def test_a_release_with_one_schedd_has_been_here(reading: Reading) -> None:
    """Its last job, which no JSON is, shows nothing of the tenants' schedds: their whole histories are read."""
    reading.connection.execute(
        "INSERT INTO collection (source, at, newest) VALUES ('htcondor', now(), 'access-point@example.org#1.0#1')"
    )
    reading.put([job(2), job(1)], [])
    reading.until(lambda: len(reading.jobs()) == 2)
