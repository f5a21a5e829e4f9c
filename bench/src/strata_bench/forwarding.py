"""The ingress controller's part in tests without one: a handler that forwards requests."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")


def forwarding(target: Callable[[str], str], *dropped: str) -> type[BaseHTTPRequestHandler]:
    """A handler of all methods.

    Args:
        target: URL of the service for a path.
        dropped: headers of requests, in lower case, that are not passed on.
    """

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(urlsplit(target(self.path)).netloc, timeout=60)
            kept = {key: value for key, value in self.headers.items() if key.lower() not in dropped}
            connection.request(self.command, self.path, body, kept)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in ("transfer-encoding", "content-length", "connection", "date"):
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    for method in METHODS:
        setattr(Handler, f"do_{method}", Handler.forward)
    return Handler
