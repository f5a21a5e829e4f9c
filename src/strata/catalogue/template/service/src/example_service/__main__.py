"""Serves HTTP: / and /healthz."""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWERS = {"/": {"message": "Hello from example-service"}, "/healthz": {"status": "ok"}}


class Handler(BaseHTTPRequestHandler):
    """Responds with JSON."""

    def do_GET(self) -> None:
        """One of ANSWERS, or 404."""
        answer = ANSWERS.get(self.path)
        body = json.dumps(answer or {"error": "not found"}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # all addresses of the pod; its network policy decides who may connect
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Handler).serve_forever()
