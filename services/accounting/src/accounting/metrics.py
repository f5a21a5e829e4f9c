"""What the collector has recorded, for Prometheus: `/metrics` at a port of its own."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from accounting import retention
from accounting.store import Connection

_SEEN = "SELECT source, extract(epoch FROM at)::float FROM collection WHERE source <> %s ORDER BY source"
# of the database's own statistics, so that what the other programs write counts too, and no table is read
_WRITTEN = "SELECT relname, n_tup_ins + n_tup_upd FROM pg_stat_user_tables ORDER BY relname"


class Metrics:
    """The state of the records when it was last read."""

    def __init__(self) -> None:
        self.text = ""

    def read(self, connection: Connection) -> None:
        """Reads it."""
        lines = ["# TYPE accounting_recorded_until_timestamp_seconds gauge"]
        for source, at in connection.execute(_SEEN, (retention.SOURCE,)):
            lines.append(f'accounting_recorded_until_timestamp_seconds{{source="{source}"}} {at}')
        lines.append("# TYPE accounting_rows_written_total counter")
        for table, rows in connection.execute(_WRITTEN):
            lines.append(f'accounting_rows_written_total{{table="{table}"}} {rows}')
        self.text = "\n".join([*lines, ""])

    def serve(self, port: int) -> ThreadingHTTPServer:
        """Serves it, in threads."""
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                found = self.path == "/metrics"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(metrics.text.encode() if found else b"")

            def log_message(self, format: str, *arguments: object) -> None:
                """Scrapes are not logged."""

        server = ThreadingHTTPServer(("", port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server
