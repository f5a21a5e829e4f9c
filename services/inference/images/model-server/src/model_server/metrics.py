"""What Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "model_server_requests", "Requests by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "model_server_request_seconds",
            "Seconds from a request to the end of its answer",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.first_token = Histogram(
            "model_server_first_part_seconds",
            "Seconds from a request to the first part of its stream",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.tokens = Counter("model_server_tokens", "Tokens by direction", ["direction"], registry=self.registry)
        self.queued = Gauge("model_server_queue_length", "Inputs that wait or run", registry=self.registry)
        self.batch = Histogram(
            "model_server_batch_size", "Inputs that ran together, by input", buckets=SIZES, registry=self.registry
        )
