"""A hub with one model: what `from_pretrained` asks of HF_ENDPOINT, by id and revision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from strata_bench.https_server import in_background

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub_of(directory: Path, model: str, revision: str) -> Iterator[str]:
    """Serves a directory as a model's revision; anything else is not found.

    Returns:
        HF_ENDPOINT.
    """
    base = f"/{model}/resolve/{revision}/"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path).replace(f"/resolve/{COMMIT}/", f"/resolve/{revision}/")
            file = directory / path.removeprefix(base)
            found = path.startswith(base) and file.is_file()
            content = file.read_bytes() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Repo-Commit", COMMIT)
            if found:
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            elif path.startswith(base):
                self.send_header("X-Error-Code", "EntryNotFound")
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Silent."""

    with in_background(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
