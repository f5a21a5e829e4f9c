"""Stops pods whose GPUs are idle, where their owners chose so: after a warning, and never without measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import Connection, RowMapping, or_, select

from pods import rows
from pods.objects import object_name
from pods.spec import PodSpec, Resources
from pods.status import AVAILABLE
from pods.tables import pods
from strata_http.prometheus import NoAnswer, query, quoted

GRACE = timedelta(minutes=10)
"""From the warning to the stop."""
STEP_SECONDS = 60
COVERED = 0.9
"""Part of the steps that must have a sample of each GPU."""
TIMEOUT_SECONDS = 5.0

Chosen = list[tuple[RowMapping, Resources]]
Utilization = dict[tuple[str, str], float]
"""Percent by namespace and name of the Pod."""

log = structlog.get_logger(__name__)


def warning(ending: datetime) -> str:
    """`message` of a pod that will be stopped."""
    when = f"{ending.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"its GPUs are idle: the pod is stopped at {when} unless they are used before (gpu_minimum_utilization)"


def expression(tenant: str, pod_id: str, resources: Resources) -> str:
    """Highest utilization of a pod's GPUs over its gpu_idle_seconds; no value where one of them was not measured."""
    labels = f"namespace={quoted(tenant)}, pod={quoted(object_name(pod_id))}"
    series = f"DCGM_FI_DEV_GPU_UTIL{{{labels}}}"
    seconds = resources.gpu_idle_seconds
    samples = int(COVERED * seconds / STEP_SECONDS)
    highest = f"max by (namespace, pod) (max_over_time({series}[{seconds}s]))"
    measured = f"count_over_time({series}[{seconds}s:{STEP_SECONDS}s]) >= {samples}"
    return f"({highest} and count by (namespace, pod) ({measured}) >= {resources.gpus})"


class IdleGpus:
    """Of the active reconciler; what it has seen is in the database only.

    Args:
        connection: holds the lock.
        prometheus_url: empty where nothing measures pods.
        seconds: between two queries.
        answered: called in another thread when `check` has something to do.
    """

    def __init__(
        self, connection: Connection, prometheus_url: str, seconds: float, answered: Callable[[], None]
    ) -> None:
        self._connection, self._url, self._seconds, self._answered = connection, prometheus_url, seconds, answered
        self._next = time.monotonic()
        # pods start and stop while Prometheus takes its time
        self._queries = ThreadPoolExecutor(1, "utilization")
        self._asked: tuple[Chosen, Future[Utilization]] | None = None

    def check(self) -> None:
        """Warns, calls off and stops; one query for all pods, none before its time, and none is waited for."""
        if self._asked is None:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + self._seconds
            chosen, now = self._chosen(), datetime.now(UTC)
            measured = [(row, resources) for row, resources in chosen if _whole(row, resources, now)]
            if not self._url or not measured:
                self._judge_all(chosen, {})
                return
            self._asked = chosen, self._queries.submit(self._utilization, measured)
            self._asked[1].add_done_callback(lambda _: self._answered())
        chosen, query = self._asked
        if not query.done():
            return
        self._asked = None
        try:
            utilization = query.result()
        except NoAnswer as error:
            # warnings stay; no pod is stopped by this pass
            log.warning("GPUs of pods are not measured", reason=str(error))
            return
        self._judge_all(chosen, utilization)

    def _chosen(self) -> Chosen:
        """Pods that run with a minimum, or were warned, with their limits as they are now and the GPUs of the run."""
        minimum = pods.c.spec["resources"]["gpu_minimum_utilization"].as_integer()
        statement = select(*pods.columns).where(
            pods.c.status == AVAILABLE,
            pods.c.status_requested == "ON",
            pods.c.deleted.is_(False),
            or_(minimum > 0, pods.c.gpu_idle_stop_ts.is_not(None)),
        )
        chosen = []
        for row in self._connection.execute(statement).mappings():
            try:
                resources = PodSpec.model_validate(row["spec"]).resources
                gpus = PodSpec.model_validate(row["run_spec"] or row["spec"]).resources.gpus
            except ValueError:
                continue  # the pod's status shows what is wrong
            chosen.append((row, resources.model_copy(update={"gpus": gpus})))
        return chosen

    def _utilization(self, chosen: Sequence[tuple[RowMapping, Resources]]) -> Utilization:
        """Of Prometheus, in a thread of its own.

        Raises:
            NoAnswer.
        """
        parts = [expression(row["tenant"], row["pod_id"], resources) for row, resources in chosen]
        series = query(self._url, " or ".join(parts), seconds=TIMEOUT_SECONDS)
        return {
            (sample.metric.get("namespace", ""), sample.metric.get("pod", "")): sample.value[1] for sample in series
        }

    def _judge_all(self, chosen: Chosen, utilization: Utilization) -> None:
        for row, resources in chosen:
            measured = utilization.get((row["tenant"], object_name(row["pod_id"])))
            self._judge(row, resources, measured, datetime.now(UTC))

    def _judge(self, row: RowMapping, resources: Resources, utilization: float | None, now: datetime) -> None:
        ending: datetime | None = row["gpu_idle_stop_ts"]
        # the owner may have changed the minimum since the row was read
        same = pods.c.spec == row["spec"]
        if utilization is None or not utilization < resources.gpu_minimum_utilization:
            if ending is not None and rows.change(self._connection, row, same, gpu_idle_stop_ts=None):
                rows.note(self._connection, row, "warning of idle GPUs called off")
            return
        use = f"GPUs used at most {utilization:g} % for {resources.gpu_idle_seconds} s"
        if ending is None:
            ending = now + GRACE
            if rows.change(self._connection, row, same, gpu_idle_stop_ts=ending):
                rows.note(self._connection, row, f"{use}; {warning(ending)}")
        elif ending <= now:
            reason = f"{use}, less than gpu_minimum_utilization {resources.gpu_minimum_utilization} %"
            if rows.change(self._connection, row, same, status_requested="OFF", stop_reason=reason):
                rows.note(self._connection, row, f"stopped: {reason}")
                log.info("pod with idle GPUs stopped", pod=row["pod_id"], tenant=row["tenant"])


def _whole(row: RowMapping, resources: Resources, now: datetime) -> bool:
    """Whether the run has GPUs and a minimum, and is old enough to be judged: before it, another run had the name."""
    begun: datetime | None = row["start_instance_ts"]
    if begun is None or not resources.gpus or not resources.gpu_minimum_utilization:
        return False
    return begun + timedelta(seconds=resources.gpu_idle_seconds) <= now
