"""The metrics of models."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

START_SECONDS = (1, 2.5, 5, 10, 20, 40, 80, 160)


class Counts:
    """What Prometheus reads beside the kit's own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        by = ("model", "tenant")
        self.requests = Counter("inference_model_requests", "Requests to models.", (*by, "status"), registry=registry)
        self.tokens = Counter("inference_tokens", "Tokens of models.", (*by, "direction"), registry=registry)
        self.in_hand = Gauge("inference_requests_in_hand", "Requests that wait or run.", ("model",), registry=registry)
        self.replicas = Gauge("inference_model_replicas", "Desired pods of a model.", ("model",), registry=registry)
        self.starts = Counter("inference_model_starts", "Starts of models.", ("model", "outcome"), registry=registry)
        self.start_seconds = Histogram(
            "inference_model_start_seconds",
            "Time from the request that starts a model until it responds.",
            ("model",),
            buckets=START_SECONDS,
            registry=registry,
        )

    def begin(self, model: str, tenant: str) -> None:
        """Makes series of a model at 0: Prometheus sees no increase in the first value of a series."""
        self.requests.labels(model, tenant, "200")
        for direction in ("in", "out"):
            self.tokens.labels(model, tenant, direction)
