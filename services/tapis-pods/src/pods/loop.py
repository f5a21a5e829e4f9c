"""The reconciler's process: waits for its turn, then for changes, and compares."""

from __future__ import annotations

import time
from typing import NoReturn

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from prometheus_client.process_collector import ProcessCollector
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from pods.cluster import ERRORS, Cluster
from pods.idle import IdleGpus
from pods.reconciler import Reconciler, summary
from pods.settings import ReconcileSettings
from pods.status import STATUSES
from pods.tables import CHANNEL
from pods.turns import PAUSE_SECONDS, in_background, listen, turn
from pods.wakes import Wakes
from strata_http.database import create_command_engine

LOCK = 0x706F6473
"""Of the active process: an advisory lock of its session, which ends with it. The number means nothing."""

log = structlog.get_logger(__name__)


class Metrics:
    """Of the process, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.pods = Gauge("pods_pods", "Pods of users.", ("tenant", "status"), registry=self.registry)
        self.active = Gauge("pods_reconciler_active", "1 in the process that has the lock.", registry=self.registry)
        self.passed = Gauge(
            "pods_reconciler_last_pass_timestamp_seconds", "End of the last pass.", registry=self.registry
        )
        self.errors = Counter("pods_reconciler_errors", "Passes that failed.", registry=self.registry)

    def show(self, tenants: list[str], counts: dict[tuple[str, str], int]) -> None:
        """Counts of every tenant and status, zeros included."""
        for tenant in tenants:
            for state in STATUSES:
                self.pods.labels(tenant, state).set(counts.get((tenant, state), 0))
        self.passed.set_to_current_time()


def run(settings: ReconcileSettings) -> NoReturn:
    """Reconciles until the process ends."""
    metrics, wakes = Metrics(), Wakes(settings.tenants)
    if settings.metrics_port is not None:
        start_http_server(settings.metrics_port, settings.bind_address, registry=metrics.registry)
    engine, cluster = create_command_engine(settings), Cluster(settings.kubeconfig)
    ends = (*ERRORS, DBAPIError)
    in_background("requests", lambda: listen(engine, CHANNEL, wakes.add), ends)
    for tenant in settings.tenants:
        in_background(f"pods of {tenant}", lambda tenant=tenant: _watch(cluster, tenant, wakes), ends)  # type: ignore[misc]
    while True:
        try:
            with turn(engine, LOCK) as connection:
                if connection is not None:
                    log.info("active")
                    metrics.active.set(1)
                    _reconcile(Reconciler(connection, cluster, settings), settings, metrics, wakes)
        except DBAPIError as error:
            log.warning("the database does not respond", reason=str(error.orig).strip())
            metrics.errors.inc()
        metrics.active.set(0)
        time.sleep(PAUSE_SECONDS)


def _reconcile(reconciler: Reconciler, settings: ReconcileSettings, metrics: Metrics, wakes: Wakes) -> NoReturn:
    idle = IdleGpus(reconciler.connection, settings.prometheus_url, settings.idle_check_seconds, lambda: wakes.add(""))
    everything = until = time.monotonic()
    while True:
        woken, failed = wakes.take(until), False
        idle.check()
        for name in woken:
            try:
                reconciler.compare(settings.tenants[name])
            except ERRORS as error:
                failed = True
                metrics.errors.inc()
                log.warning("Kubernetes does not respond", tenant=name, reason=str(error) or type(error).__name__)
        metrics.show(list(settings.tenants), summary(reconciler.connection))
        now = time.monotonic()
        if len(woken) == len(settings.tenants):
            everything = now
        resync = everything + settings.resync_seconds
        until = now + PAUSE_SECONDS if failed else min(resync, now + _next(reconciler.connection, resync - now))


def _next(connection: Connection, most: float) -> float:
    """Seconds to the next comparison: at most until a pod's time is over."""
    query = "SELECT extract(epoch FROM min(time_to_stop_ts) - now()) FROM pods WHERE status_requested = 'ON'"
    seconds = connection.execute(text(query)).scalar()
    return most if seconds is None else min(most, max(float(seconds), PAUSE_SECONDS))


def _watch(cluster: Cluster, tenant: str, wakes: Wakes) -> None:
    for _ in cluster.changes(tenant):
        wakes.add(tenant)
