"""Prometheus metrics: requests, their latency, and the database's pool."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool

BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The metrics of one process, in a registry of their own.

    Args:
        service: its name, which the metrics begin with: `ml-hub` gives ml_hub_http_requests_total.
    """

    def __init__(self, service: str) -> None:
        prefix = service.replace("-", "_")
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.requests = Counter(
            f"{prefix}_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.latency = Histogram(
            f"{prefix}_http_request_duration_seconds",
            "Time from the request to the end of its response.",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.audit_records = Counter(
            f"{prefix}_audit_records", "Requests to change something.", ("action", "outcome"), registry=self.registry
        )
        self.database_errors = Counter(
            f"{prefix}_database_errors", "Statements and connections that failed.", registry=self.registry
        )
        self._pool_in_use = Gauge(
            f"{prefix}_database_connections_in_use", "Connections of the pool at work.", registry=self.registry
        )
        self._pool_size = Gauge(
            f"{prefix}_database_connections_limit", "Connections the pool may open.", registry=self.registry
        )

    def watch(self, engine: AsyncEngine) -> None:
        """Reports on this engine's pool and its errors."""
        pool = engine.pool
        if isinstance(pool, QueuePool):
            self._pool_in_use.set_function(lambda: float(pool.checkedout()))
            self._pool_size.set(pool.size())

        @event.listens_for(engine.sync_engine, "handle_error")
        def _count(_context: Any) -> None:
            self.database_errors.inc()

    def serve(self, address: str, port: int) -> Any:
        """Starts /metrics on a port of its own; returns the server, to be shut down."""
        server, _ = start_http_server(port, address, registry=self.registry)
        return server
