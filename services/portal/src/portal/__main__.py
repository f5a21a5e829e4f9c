"""Serves the page of the file that $PORTAL_PAGE names. `/state.json` has the states, `/healthz` is the server's own.

Environment: PORTAL_PAGE; PORTAL_ENTRANCE, ADDRESS PORT of the load balancer; PORTAL_CA, PEM file of the CA of the
services' certificate, empty for the public ones; PORT; METRICS_PORT.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from portal.metrics import metrics_server
from portal.page import render
from portal.probe import Entrance, Monitor, Target

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILES = {"/style.css": "text/css", "/script.js": "text/javascript", "/icon.svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Server(ThreadingHTTPServer):
    """The page's server.

    Args:
        port: TCP port, on all addresses of the pod; its network policy decides who may connect.
        page: texts and services.
        monitor: of the services.
    """

    daemon_threads = True

    def __init__(self, port: int, page: dict[str, Any], monitor: Monitor) -> None:
        super().__init__(("", port), Handler)
        self.page, self.monitor = page, monitor
        self.targets = targets(page)

    def answer(self, path: str) -> tuple[str, str] | None:
        """Type and text of what is at a path; None where there is nothing."""
        states = [self.monitor.state(target) for target in self.targets]
        if path == "/":
            return "text/html", render(self.page, states, self.monitor.checked)
        if path == "/state.json":
            return "application/json", json.dumps({"checked": self.monitor.checked, "services": states})
        if path == "/healthz":
            return "text/plain", "ok\n"
        if path in FILES:
            return FILES[path], Path(__file__).with_name(path[1:]).read_text(encoding="utf-8")
        return None


class Handler(BaseHTTPRequestHandler):
    """Responds to GET and HEAD."""

    server: Server
    server_version, sys_version = "portal", ""
    timeout = 30

    def do_GET(self) -> None:
        """A file, or 404."""
        answer = self.server.answer(self.path.split("?", 1)[0])
        kind, text = answer or ("text/plain", "not found\n")
        body = text.encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=300" if kind in FILES.values() else "no-store")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """The ingress controller logs requests."""


def targets(page: dict[str, Any]) -> list[Target]:
    """What is probed, in the order of the page: services with a name at the load balancer."""
    return [Target(service["host"], service["health"]) for service in page["services"] if "host" in service]


def main() -> None:
    """Entry point."""
    page = json.loads(Path(os.environ["PORTAL_PAGE"]).read_text(encoding="utf-8"))
    address, port = os.environ["PORTAL_ENTRANCE"].split()
    tls = ssl.create_default_context(cafile=os.environ.get("PORTAL_CA") or None)
    monitor = Monitor(targets(page), Entrance(address, int(port), tls))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = Server(int(os.environ.get("PORT", "8080")), page, monitor)
    metrics = metrics_server(int(os.environ.get("METRICS_PORT", "9102")), monitor)
    threading.Thread(target=metrics.serve_forever, daemon=True).start()
    monitor.start()
    server.serve_forever()


if __name__ == "__main__":
    main()
