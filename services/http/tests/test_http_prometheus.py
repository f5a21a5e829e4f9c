"""The client of Prometheus, against a real one's forms of answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from strata_bench.https_server import in_background
from strata_bench.services import free_port, service_python

PROGRAM = """
import json, sys
from strata_http.prometheus import NoAnswer, query, quoted
try:
    samples = query(sys.argv[1], "up{job=" + quoted('a"b\\\\c') + "}", seconds=5)
    print(json.dumps([[sample.metric, str(sample.value[1])] for sample in samples]))
except NoAnswer as error:
    print(json.dumps(str(error)))
"""


class Server(ThreadingHTTPServer):
    """Answers each query with `status` and `body`; the queries are in `asked`."""

    status, body = 200, ""
    asked: list[str] = []  # noqa: RUF012  # of the one server of each test


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            http_server.asked.append(self.path)
            self.send_response(http_server.status)
            self.end_headers()
            self.wfile.write(http_server.body.encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    http_server = Server(("127.0.0.1", 0), Handler)
    http_server.asked = []
    with in_background(http_server):
        yield http_server


def ask(port: int, program: str = PROGRAM) -> Any:
    # a proxy of the environment has nothing to do with it
    environment = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    command = [str(service_python("http")), "-c", program, f"http://127.0.0.1:{port}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_vector_is_read(server: Server) -> None:
    series = [{"metric": {"pod": "a"}, "value": [1.5, "2"]}, {"metric": {}, "value": [1, "NaN"]}]
    series.append({"metric": {"pod": "b"}, "value": [1, "+Inf"]})
    server.body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}, "warnings": []})
    assert ask(server.server_port) == [[{"pod": "a"}, "2.0"], [{}, "nan"], [{"pod": "b"}, "inf"]]
    (path,) = server.asked
    assert path.startswith("/api/v1/query?query=up%7Bjob%3D%22a%5C%22b%5C%5Cc%22%7D&timeout=5s")


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (
            400,
            '{"status": "error", "errorType": "bad_data", "error": "parse error at char 1"}',
            "parse error at char 1",
        ),
        (503, "no such page", "503"),
        (200, "<html>", "JSON"),
        (200, '{"status": "success", "data": {"resultType": "matrix", "result": []}}', "vector"),
        (200, '{"status": "success"}', "data"),
    ],
)
def test_anything_else_is_not_an_answer(server: Server, status: int, body: str, text: str) -> None:
    server.status, server.body = status, body
    reason = ask(server.server_port)
    assert isinstance(reason, str)
    assert reason.startswith(f"Prometheus http://127.0.0.1:{server.server_port}: ")
    assert text in reason


def test_samples_are_read(server: Server) -> None:
    values = [[1.5, "2"], [2.5, "3"]]
    result = [{"metric": {"pod": "a"}, "values": values}]
    server.body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    program = (
        "import datetime, json, sys\nfrom strata_http.prometheus import samples\n"
        "at = datetime.datetime.fromtimestamp(7200, datetime.UTC)\n"
        "(series,) = samples(sys.argv[1], 'up[1h]', seconds=5, at=at)\n"
        "print(json.dumps([series.metric, series.values]))"
    )
    assert ask(server.server_port, program) == [{"pod": "a"}, [[1.5, 2.0], [2.5, 3.0]]]
    assert server.asked == ["/api/v1/query?query=up%5B1h%5D&timeout=5s&time=7200.0"]


def test_nothing_there_is_no_answer() -> None:
    assert "refused" in ask(free_port())
