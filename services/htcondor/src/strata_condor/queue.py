"""The jobs of the schedds and the usage of tenants, by HTCondor's own client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from strata_condor.plan import Shape

IDLE, RUNNING, HELD = 1, 2, 5
STATES = {IDLE: "idle", RUNNING: "running", HELD: "held"}
MEMORY_STEP = 128
"""MiB; requests are rounded up, so that jobs share execution points."""
DEFAULT_MEMORY = 128
WAITS_FOR = "StrataWaitsFor"
"""Attribute of a job: why it has no execution point."""
ATTRIBUTES = [
    "AcctGroup", "EnteredCurrentStatus", "HoldReasonCode", "JobStatus", "MemoryUsage", "RemoteHost", "RequestCpus",
    "RequestGPUs", "RequestMemory", "StrataImage", "ClusterId", "ProcId", WAITS_FOR,
]  # fmt: skip
SPOOLING = 16
"""HoldReasonCode of a job whose files are on their way."""
SELECTION = f"JobUniverse == 5 && (JobStatus == {IDLE} || JobStatus == {RUNNING} || JobStatus == {HELD})"


class Ad(Protocol):
    """A ClassAd."""

    def get(self, key: str, default: Any = None) -> Any:
        """An attribute, not evaluated."""

    def eval(self, attr: str) -> Any:
        """An attribute's value; raises KeyError where there is none."""


@dataclass
class Snapshot:
    """Queues at one time.

    Args:
        idle: number of idle jobs by shape.
        busy: names of the execution points that run a job.
        jobs: number of jobs by tenant and state (idle, running, held).
        idle_since: of each tenant's job that has been idle for the longest, in seconds since 1970.
        said: what each job waits for, by tenant and id: its shape, None if it does not wait, and the text.
    """

    idle: Counter[Shape] = field(default_factory=Counter)
    busy: set[str] = field(default_factory=set)
    jobs: Counter[tuple[str, str]] = field(default_factory=Counter)
    idle_since: dict[str, int] = field(default_factory=dict)
    said: dict[tuple[str, str], tuple[Shape | None, str]] = field(default_factory=dict)


def snapshot(ads: Iterable[Ad], default_image: str) -> Snapshot:
    """What the provisioner needs of jobs' ClassAds.

    Args:
        ads: of the jobs.
        default_image: name of the image of jobs that name none.
    """
    result = Snapshot()
    for ad in ads:
        tenant, status = str(ad.get("AcctGroup", "")), int(ad.get("JobStatus", 0))
        if status == HELD and ad.get("HoldReasonCode") == SPOOLING:
            continue
        result.jobs[tenant, STATES.get(status, "other")] += 1
        if status == IDLE:
            since = _number(ad, "EnteredCurrentStatus", 0)
            result.idle_since[tenant] = min(since, result.idle_since.get(tenant, since))
            memory = max(1, -(-_number(ad, "RequestMemory", DEFAULT_MEMORY) // MEMORY_STEP)) * MEMORY_STEP
            cpus, cards = max(1, _number(ad, "RequestCpus", 1)), max(0, _number(ad, "RequestGPUs", 0))
            shape = Shape(tenant, cpus, memory, cards, str(ad.get("StrataImage") or default_image))
            result.idle[shape] += 1
            result.said[tenant, job_id(ad)] = shape, str(ad.get(WAITS_FOR) or "")
            continue
        if text := ad.get(WAITS_FOR):
            result.said[tenant, job_id(ad)] = None, str(text)
        if host := ad.get("RemoteHost"):
            result.busy.add(point_of(str(host)))
    return result


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The queues of several schedds, each of one tenant."""
    total = Snapshot()
    for snapshot in snapshots:
        total.idle += snapshot.idle
        total.busy |= snapshot.busy
        total.jobs += snapshot.jobs
        total.idle_since |= snapshot.idle_since
        total.said |= snapshot.said
    return total


def job_id(ad: Ad) -> str:
    """As HTCondor writes it."""
    return f"{ad.get('ClusterId')}.{ad.get('ProcId')}"


def point_of(host: str) -> str:
    """Name of the execution point: slot1@execute-research-1a2b3c4d-x7k2p.DOMAIN is the host of a pod of its Job."""
    return host.rpartition("@")[2].partition(".")[0].rpartition("-")[0]


def usage(ads: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """CPUs that each tenant used, decayed over time: the sum of its users' real priorities.

    Args:
        ads: the accountant's, one per user and group.
    """
    by_tenant: dict[str, float] = {}
    for ad in ads:
        group, dot, _ = str(ad.get("Name", "")).partition(".")
        if dot and not ad.get("IsAccountingGroup"):
            tenant = group.replace("_", "-")  # as the configuration of the pool names it
            by_tenant[tenant] = by_tenant.get(tenant, 0.0) + float(ad.get("Priority", 0.0))
    return by_tenant


def _number(ad: Ad, name: str, default: int) -> int:
    """A request, which may be an expression of attributes that an idle job does not have yet."""
    if ad.get(name) is None:
        return default
    value = ad.eval(name)
    return int(value) if isinstance(value, int | float) else default
