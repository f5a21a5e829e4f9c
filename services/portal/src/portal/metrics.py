"""What the page knows of the services, for Prometheus, at a port that no Ingress publishes."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from portal.probe import Monitor


def exposition(monitor: Monitor) -> str:
    """Whether each service responds and how long that took; nothing of services whose state is unknown."""
    answers = sorted(monitor.answers().items(), key=lambda item: item[0].host)
    lines = ["# TYPE portal_service_up gauge"]
    lines += [f'portal_service_up{{host="{target.host}"}} {int(not answer.problem)}' for target, answer in answers]
    lines.append("# TYPE portal_service_response_seconds gauge")
    lines += [f'portal_service_response_seconds{{host="{t.host}"}} {answer.seconds:.3f}' for t, answer in answers]
    return "\n".join([*lines, ""])


def metrics_server(port: int, monitor: Monitor) -> ThreadingHTTPServer:
    """The server of `/metrics`."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            found = self.path == "/metrics"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(exposition(monitor).encode() if found else b"")

        def log_message(self, format: str, *arguments: object) -> None:
            """Scrapes are not logged."""

    server = ThreadingHTTPServer(("", port), Handler)
    server.daemon_threads = True
    return server
