"""Servers of a test, in the background: any, and one with HTTPS and a CA of its own."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from typing import TypeVar

from strata.site.outputs import write_private
from strata.site.secrets import pki

Server = TypeVar("Server", bound=BaseServer)


@dataclass(frozen=True)
class HttpsServer:
    """Its port, and the CA of its certificate as PEM."""

    port: int
    ca: str


def answer_json(
    handler: BaseHTTPRequestHandler, status: int, body: object, headers: Mapping[str, str] | None = None
) -> None:
    """Answers a request of a test's server.

    Args:
        handler: of the request.
        status: of HTTP.
        body: sent as JSON.
        headers: further ones.
    """
    content = json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def in_background(server: Server) -> Iterator[Server]:
    """Answers requests meanwhile; the server is closed afterwards."""
    with server:
        # looks often whether it should end: tests have many
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@contextmanager
def https_server(
    handler: type[BaseHTTPRequestHandler], directory: Path, names: Sequence[str] = (), address: str = "127.0.0.1"
) -> Iterator[HttpsServer]:
    """Serves meanwhile.

    Args:
        handler: of the requests.
        directory: gets certificate and key, tls.pem.
        names: the certificate's, beside the address.
        address: where it listens.
    """
    ca, authority_key = pki.create_authority("test")
    issued = pki.issue(ca, authority_key, "test", list(names), [address])
    write_private(directory / "tls.pem", issued.certificate + issued.private_key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(directory / "tls.pem")
    server = ThreadingHTTPServer((address, 0), handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    with in_background(server):
        yield HttpsServer(server.server_port, ca)
