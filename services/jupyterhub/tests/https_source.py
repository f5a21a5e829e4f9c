"""An HTTPS server with a good file, and others."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from strata.site.secrets import pki

from .datasets import GOOD


@dataclass(frozen=True)
class Sources:
    """An HTTPS server.

    Args:
        url: without a slash at its end.
        authority: PEM of the CA that signed its certificate.
        release: lets a server that has not answered yet end.
    """

    url: str
    authority: str
    release: threading.Event


@contextmanager
def https_source(directory: Path) -> Iterator[Sources]:
    """The server; its key is in `directory`."""
    release = threading.Event()
    authority, key = pki.create_authority("unit")
    issued = pki.issue(authority, key, "localhost", ["localhost"], [])
    (directory / "server.pem").write_text(issued.certificate + issued.private_key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(directory / "server.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            if name == "silent":
                release.wait(60)
                return
            if name == "trickle":
                with suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not release.wait(0.05):
                        self.wfile.write(b"x")
                return
            locations = {"moved": "/iris.csv", "downgrade": "http://localhost/iris.csv"}
            self.send_response({"missing": 404, "empty": 204}.get(name, 302 if name in locations else 200))
            if name in locations:
                self.send_header("Location", locations[name])
            lengths = {"huge": 10**12, "short": len(GOOD) + 1}
            if name not in ("endless", "slow"):
                self.send_header("Content-Length", str(lengths.get(name, len(GOOD))))
            self.end_headers()
            with suppress(OSError):  # the client has ended
                while name in ("endless", "slow") and not release.wait(0.05 if name == "slow" else 0):
                    self.wfile.write(b"x" * (1 if name == "slow" else 2**16))
                self.wfile.write(GOOD)

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Sources(f"https://localhost:{server.server_port}", authority, release)
    release.set()
    server.shutdown()
    server.server_close()
