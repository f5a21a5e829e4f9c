"""Metrics of the mirror, beside those of its requests."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

FILES = ("hit", "miss", "passed", "published")
ANSWERS = ("hit", "miss", "stale", "passed")
"""Values of the label `result`."""


class Counts:
    """What the mirror has saved, in the registry of the service.

    Args:
        registry: of the service.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.files = Counter(
            "hub_mirror_files",
            "Files sent: hit (from the cache), miss (fetched for it), passed (fetched and not stored), published.",
            ("result",),
            registry=registry,
        )
        self.answers = Counter(
            "hub_mirror_answers",
            "Lists, cards and branches: hit (fresh), miss (fetched), stale (the upstream does not respond), passed.",
            ("result",),
            registry=registry,
        )
        self.served = Counter(
            "hub_mirror_served_bytes", "Bytes of files sent to clients.", ("result",), registry=registry
        )
        # series begin at 0, so that a rate sees the first event
        for result in FILES:
            self.files.labels(result)
            self.served.labels(result)
        for result in ANSWERS:
            self.answers.labels(result)
        self.fetched = Counter("hub_mirror_fetched_bytes", "Bytes of files from the upstream.", registry=registry)
        self.evicted = Counter("hub_mirror_evicted_bytes", "Bytes of files that left the cache.", registry=registry)
        self.broken = Counter("hub_mirror_broken_transfers", "Transfers that failed or broke off.", registry=registry)
        self._cache = Gauge("hub_mirror_cache_bytes", "Bytes of cached files.", registry=registry)
        self._limit = Gauge("hub_mirror_cache_limit_bytes", "Most bytes of cached files.", registry=registry)

    def watch(self, used: Callable[[], int], limit: int) -> None:
        """Reports the cache's size.

        Args:
            used: bytes of cached files now.
            limit: most of them.
        """
        self._cache.set_function(lambda: float(used()))
        self._limit.set(limit)
