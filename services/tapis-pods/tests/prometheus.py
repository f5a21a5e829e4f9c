"""A substitute for Prometheus: answers the service's queries by the HTTP API, with the values that a test sets."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from strata_bench.https_server import answer_json, in_background

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

    def result(self, query: str) -> list[Any]:
        """The vector."""
        at = time.time()
        found = [
            {"metric": {"namespace": namespace, "pod": pod}, "value": [at, str(self.utilization[pod])]}
            for namespace, pod in _IDLE.findall(query)
            if "label_replace" not in query and pod in self.utilization
        ]
        for measure, over in _MEASURE.findall(query):
            for labels, values in self.measured.get(measure, []):
                if over in values:
                    metric = {**labels, "measure": measure, "over": over}
                    found.append({"metric": metric, "value": [at, values[over]]})
        return found


@contextlib.contextmanager
def running_prometheus() -> Iterator[Prometheus]:
    """It, until the end of the block."""
    prometheus = Prometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (query,) = parse_qs(urlsplit(self.path).query)["query"]
            prometheus.queries.append(query)
            if prometheus.failing == "hanging":
                prometheus.released.wait(60)
            if prometheus.failing == "error":
                answer_json(self, 503, {"status": "error", "errorType": "timeout", "error": "it took too long"})
            elif prometheus.failing == "html":
                answer_json(self, 200, "<html>")
            else:
                data = {"resultType": "vector", "result": prometheus.result(query)}
                with contextlib.suppress(ConnectionError):
                    answer_json(self, 200, {"status": "success", "data": data})

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    prometheus.url = f"http://127.0.0.1:{server.server_port}"
    with in_background(server):
        yield prometheus
