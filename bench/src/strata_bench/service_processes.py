"""Services as processes of their own, and HTTP servers of a test."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import requests

from strata_bench.https_server import answer_json, in_background
from strata_bench.waiting import eventually, responds


@dataclass
class Service:
    """A running service.

    Args:
        url: where it answers.
        process: its process.
        log_file: its standard output and error.
    """

    url: str
    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.log_file.read_text()

    def logged(self, **fields: object) -> dict[str, Any]:
        """The last line with these fields; a request's is written once it has been answered."""
        matches: list[dict[str, Any]] = []

        def written() -> bool:
            # the last line may be partially written
            lines = map(json.loads, self.log.rpartition("\n")[0].splitlines())
            matches[:] = [line for line in lines if line.items() >= fields.items()]
            return bool(matches)

        eventually(written, 60, f"a line in the log with {fields}")
        return matches[-1]


@contextlib.contextmanager
def running(
    python: Path, arguments: list[str], environment: Mapping[str, str], port: int, directory: Path
) -> Iterator[Service]:
    """Starts a service, waits for /healthz and ends it afterwards."""
    log_file = directory / f"{arguments[1]}-{port}.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(python), *arguments], env={"PATH": os.environ["PATH"], **environment}, stdout=log, stderr=log
        )
    service = Service(f"http://127.0.0.1:{port}", process, log_file)
    try:
        responds(f"{service.url}/healthz", process, log_file)
        yield service
    finally:
        process.terminate()
        assert process.wait(timeout=30) is not None


def counted(url: str, count: str) -> str:
    """The metrics of a service, once they have a count; that of a request comes after its answer.

    Args:
        url: of the metrics.
        count: a metric with its labels.
    """
    eventually(lambda: count in requests.get(url, timeout=60).text, 60, f"{count} is counted")
    return requests.get(url, timeout=60).text


@contextlib.contextmanager
def http_server(
    answer: Callable[[str], tuple[int, dict[str, str], Any]],
    tls: ssl.SSLContext | None = None,
    post: Callable[[dict[str, str]], tuple[int, Any]] = lambda _: (405, {}),
) -> Iterator[str]:
    """A server on loopback; its URL.

    Args:
        answer: to GET, by the path: status, headers, JSON.
        tls: HTTPS where it is given.
        post: to POST, by the form: status, JSON.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer(self.path)
            # whoever asked may have waited long enough
            with contextlib.suppress(ConnectionError):
                answer_json(self, status, body, headers)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            answer_json(self, *post(dict(parse_qsl(form))))

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with in_background(server):
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
