"""Finished jobs of the batch system; a history that is read twice adds nothing."""

from __future__ import annotations

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
)
MIB, KIB = 2**20, 2**10
Ad = Mapping[str, Any]

_INSERT = """
INSERT INTO job (global_job_id, tenant, username, cpus, memory_bytes, cards, submitted, starts, ends, cpu_seconds,
    memory_bytes_peak, exit_code)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (global_job_id) DO NOTHING
"""

_NEWEST = """
INSERT INTO collection (source, at, newest) VALUES (%s, %s, %s)
ON CONFLICT (source) DO UPDATE SET at = EXCLUDED.at, newest = EXCLUDED.newest
"""


class Pool(Protocol):
    """Where jobs finish. ClassAds come with the values of the attributes that they have."""

    def history(self, newest: str | None) -> list[Ad]:
        """Jobs that left the queue, the last one first, until the one with this global job id."""

    def completed(self) -> list[Ad]:
        """Jobs that finished and wait in the queue for their owner to fetch what they wrote."""


def record(connection: Connection, pool: Pool, at: datetime) -> int:
    """Records what finished since the last time, in one transaction.

    The history is in the order in which jobs left the queue: one that waited to be fetched comes days after its
    end, so that no time of a job tells how far back to read. The last job that was read does; where the access
    point no longer has it, the whole history is read.

    Args:
        connection: of the database's owner.
        pool: to read.
        at: the current time.

    Returns:
        How many jobs are new.
    """
    row = connection.execute("SELECT newest FROM collection WHERE source = %s", (SOURCE,)).fetchone()
    newest = str(row[0]) if row and row[0] else None
    completed = pool.completed()  # first: what leaves the queue in between is in the history
    history = pool.history(newest)
    found = [_row(ad) for ad in (*completed, *history)]
    if history:
        newest = str(history[0]["GlobalJobId"])
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(_INSERT, found)
        new = cursor.rowcount
        cursor.execute(_NEWEST, (SOURCE, at, newest))
    return max(0, new)


def _row(ad: Ad) -> tuple[object, ...]:
    ends = _time(ad, "CompletionDate") or _time(ad, "EnteredCurrentStatus")
    seconds = _number(ad, "RemoteWallClockTime")
    ran = ends is not None and _time(ad, "JobStartDate") is not None
    cpu = [_number(ad, f"{kind}{of}") for of in ("UserCpu", "SysCpu") for kind in ("CumulativeRemote", "Remote")]
    resident = ad.get("ResidentSetSize_RAW")
    return (
        str(ad["GlobalJobId"]),
        ad.get("AcctGroup"),
        str(ad.get("AcctGroupUser") or ad.get("Owner") or ""),
        _number(ad, "RequestCpus"),
        round(_number(ad, "RequestMemory") * MIB),
        round(_number(ad, "RequestGPUs")),
        _time(ad, "QDate"),
        ends - timedelta(seconds=seconds) if ends is not None and ran else None,
        ends,
        # older access points have no sum of all runs
        max(cpu[0], cpu[1]) + max(cpu[2], cpu[3]) if ran else None,
        round(_number(ad, "ResidentSetSize_RAW") * KIB) if ran and resident is not None else None,
        ad.get("ExitCode"),
    )


def _number(ad: Ad, name: str) -> float:
    value = ad.get(name)
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0


def _time(ad: Ad, name: str) -> datetime | None:
    seconds = _number(ad, name)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def values(ads: Iterable[Any]) -> list[Ad]:
    """ClassAds of HTCondor's client as the values of the attributes that are collected; without those undefined."""
    found: list[Ad] = []
    for ad in ads:
        pairs = ((name, ad.eval(name)) for name in ATTRIBUTES if name in ad)
        found.append({name: value for name, value in pairs if isinstance(value, int | float | str)})
    return found
