"""A substitute for Prometheus: answers the service's queries by the HTTP API, with the values that a test sets."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from strata_bench.service_processes import http_server

_IDLE = re.compile(r'max_over_time\(DCGM_FI_DEV_GPU_UTIL\{namespace="([^"]+)", pod="([^"]+)"\}')
_MEASURE = re.compile(r'"measure", "(\w+)", "", ""\), "over", "(\w+)"')
Labels = dict[str, str]


@dataclass
class Prometheus:
    """What it has measured.

    Args:
        url: of the API.
        utilization: by name of a Pod: the highest of its GPUs, percent; no sample of others.
        measured: by measure: labels, and values by what they are over.
        failing: "error": it refuses; "html": something else answers; "hanging": nothing does until it is unset.
        queries: what it was asked.
    """

    url: str = ""
    utilization: dict[str, float] = field(default_factory=dict)
    measured: dict[str, list[tuple[Labels, dict[str, str]]]] = field(default_factory=dict)
    failing: str = ""
    queries: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def reset(self) -> None:
        """Nothing is measured."""
        self.utilization, self.measured, self.queries, self.failing = {}, {}, [], ""
        self.released.set()
        self.released = threading.Event()

    def answer(self, path: str) -> tuple[int, dict[str, str], Any]:
        """To a request: status, headers, JSON."""
        (query,) = parse_qs(urlsplit(path).query)["query"]
        self.queries.append(query)
        if self.failing == "hanging":
            self.released.wait(60)
        if self.failing == "error":
            return 503, {}, {"status": "error", "errorType": "timeout", "error": "it took too long"}
        if self.failing == "html":
            return 200, {}, "<html>"
        return 200, {}, {"status": "success", "data": {"resultType": "vector", "result": self.result(query)}}

    def result(self, query: str) -> list[Any]:
        """The vector."""
        at = time.time()
        samples = [
            {"metric": {"namespace": namespace, "pod": pod}, "value": [at, str(self.utilization[pod])]}
            for namespace, pod in _IDLE.findall(query)
            if "label_replace" not in query and pod in self.utilization
        ]
        for measure, over in _MEASURE.findall(query):
            for labels, values in self.measured.get(measure, []):
                if over in values:
                    metric = {**labels, "measure": measure, "over": over}
                    samples.append({"metric": metric, "value": [at, values[over]]})
        return samples


@contextlib.contextmanager
def running_prometheus() -> Iterator[Prometheus]:
    """It, until the end of the block."""
    prometheus = Prometheus()
    with http_server(prometheus.answer) as prometheus.url:
        yield prometheus
