"""The modules of the images in Python of their own, and a substitute of a user's server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from strata_bench.https_server import in_background
from strata_bench.services import service_python
from strata_services.jupyterhub.service import SERVICE


def run_code(
    code: str, *arguments: str, text: str = "", image: str = "hub", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs code with the hub's packages and an image's modules, whatever its exit status.

    Args:
        code: of Python.
        arguments: of it.
        text: for its standard input.
        image: whose modules it may import.
        environment: beside PYTHONPATH.
    """
    return subprocess.run(
        [service_python("jupyterhub/images/hub"), "-B", "-c", code, *arguments],
        env={"PYTHONPATH": str(SERVICE.folder / "images" / image / "src"), **environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


class _Notebook(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def notebook_server() -> Iterator[int]:
    """A user's server, as far as the hub asks whether it runs; yields its port."""
    with in_background(ThreadingHTTPServer(("127.0.0.1", 0), _Notebook)) as server:
        yield server.server_port
