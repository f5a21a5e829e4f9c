"""Finished jobs of the batch system; a history that is read twice adds nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from accounting.store import Connection

SOURCE = "htcondor"
"""In the table collection."""
ATTRIBUTES = (
    "GlobalJobId",
    "Owner",
    "AcctGroup",
    "AcctGroupUser",
    "ExitCode",
    "QDate",
    "CompletionDate",
    "EnteredCurrentStatus",
    "JobStartDate",
    "RemoteWallClockTime",
    "RequestCpus",
    "RequestMemory",
    "RequestGPUs",
    "CumulativeRemoteUserCpu",
    "CumulativeRemoteSysCpu",
    "RemoteUserCpu",
    "RemoteSysCpu",
    "ResidentSetSize_RAW",
    "JobBatchName",
    "BytesRecvd",
)
MIB, KIB = 2**20, 2**10
INTEGER, BIGINT = 2**31 - 1, 2**63 - 1
"""The largest of PostgreSQL's types."""
MOST = 2.0**53
LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
NAME_CHARACTERS = 255
Ad = Mapping[str, Any]

_INSERT = """
INSERT INTO job (global_job_id, tenant, username, cpus, memory_bytes, cards, submitted, starts, ends, cpu_seconds,
    memory_bytes_peak, exit_code, batch, received_bytes)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (global_job_id) DO NOTHING
"""

_NEWEST = """
INSERT INTO collection (source, at, newest) VALUES (%s, %s, %s)
ON CONFLICT (source) DO UPDATE SET newest = EXCLUDED.newest, at = CASE WHEN %s THEN EXCLUDED.at ELSE collection.at END
"""


class NoPool(Exception):
    """A schedd does not respond, or refuses; the message gives the reason."""


class Queue(Protocol):
    """Where jobs finish. ClassAds come with the values of the attributes that they have."""

    def history(self, newest: str | None) -> list[Ad]:
        """Jobs that left the queue, the last one first, until the one with this global job id."""

    def completed(self) -> list[Ad]:
        """Jobs that finished and wait in the queue for their owner to fetch what they wrote."""


def record(connection: Connection, queues: Mapping[str, Queue], at: datetime) -> int:
    """Records what finished since the last time, in one transaction.

    The history is in the order in which jobs left the queue: one that waited to be fetched comes days after its
    end, so that no time of a job shows how far back to read. The last job that was read does; where the schedd
    no longer has it, the whole history is read.

    Args:
        connection: of the database's owner.
        queues: to read, by the names of the schedds.
        at: the current time.

    Returns:
        How many jobs are new.

    Raises:
        NoPool: a schedd does not respond; what finished in the other queues is recorded.
    """
    newest = _newest(connection)
    rows: list[tuple[object, ...]] = []
    silent: list[NoPool] = []
    for name, queue in queues.items():
        try:
            completed = queue.completed()  # first: what leaves the queue in between is in the history
            history = queue.history(newest.get(name))
        except NoPool as error:
            silent.append(error)
            continue
        rows += [_row(ad, at) for ad in (*completed, *history)]
        if history:
            newest[name] = str(history[0]["GlobalJobId"])
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(_INSERT, rows)
        new = cursor.rowcount
        cursor.execute(_NEWEST, (SOURCE, at, json.dumps(newest), not silent))
    if silent:
        raise NoPool("; ".join(map(str, silent)))
    return max(0, new)


def _newest(connection: Connection) -> dict[str, str]:
    """The last job that was read of each schedd, by its name."""
    row = connection.execute("SELECT newest FROM collection WHERE source = %s", (SOURCE,)).fetchone()
    try:
        return dict(json.loads(str(row[0]))) if row and row[0] else {}
    except ValueError:  # of a release with one schedd: its last job
        return {}


def _row(ad: Ad, at: datetime) -> tuple[object, ...]:
    """Owners choose many of a job's attributes: whatever they are, the job is recorded, and those after it."""
    ends = _time(ad, "CompletionDate") or _time(ad, "EnteredCurrentStatus")
    submitted = _time(ad, "QDate") or ends or at
    ran = ends is not None and _time(ad, "JobStartDate") is not None
    starts = None
    if ends is not None and ran:
        starts = ends - timedelta(seconds=min(_number(ad, "RemoteWallClockTime"), ends.timestamp()))
    cpu = [_number(ad, f"{kind}{of}") for of in ("UserCpu", "SysCpu") for kind in ("CumulativeRemote", "Remote")]
    resident = ad.get("ResidentSetSize_RAW")
    exit_code = ad.get("ExitCode")
    return (
        _text(ad, "GlobalJobId"),
        _text(ad, "AcctGroup") or None,
        _text(ad, "AcctGroupUser") or _text(ad, "Owner"),
        _number(ad, "RequestCpus"),
        _whole(_number(ad, "RequestMemory") * MIB),
        _whole(_number(ad, "RequestGPUs"), INTEGER),
        submitted,
        starts,
        ends,
        # older access points have no sum of all runs
        max(cpu[0], cpu[1]) + max(cpu[2], cpu[3]) if ran else None,
        _whole(_number(ad, "ResidentSetSize_RAW") * KIB) if ran and resident is not None else None,
        exit_code if isinstance(exit_code, int) and abs(exit_code) <= INTEGER else None,
        _text(ad, "JobBatchName")[:NAME_CHARACTERS] or None,
        _whole(_number(ad, "BytesRecvd")) if ran else None,
    )


def _number(ad: Ad, name: str) -> float:
    value = ad.get(name)
    return min(max(0.0, float(value)), MOST) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _whole(value: float, most: int = BIGINT) -> int:
    return min(round(value), most)


def _time(ad: Ad, name: str) -> datetime | None:
    seconds = _number(ad, name)
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < LATEST else None


def _text(ad: Ad, name: str) -> str:
    """Without control characters, which a terminal would obey."""
    return "".join(character for character in str(ad.get(name) or "") if character.isprintable())


def values(ads: Iterable[Any]) -> list[Ad]:
    """ClassAds of HTCondor's client as the values of the attributes that are collected; without those undefined."""
    collected: list[Ad] = []
    for ad in ads:
        pairs = ((name, _value(ad, name)) for name in ATTRIBUTES if name in ad)
        collected.append({name: value for name, value in pairs if isinstance(value, int | float | str)})
    return collected


def _value(ad: Any, name: str) -> object:
    try:
        return ad.eval(name)
    except ValueError:  # no UTF-8
        return None
