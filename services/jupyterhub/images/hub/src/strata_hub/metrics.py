"""The hub's metrics on a port of their own, which no Ingress publishes."""

from __future__ import annotations

from prometheus_client import start_http_server


def serve(port: int) -> None:
    """Serves what /hub/metrics serves, without a login: network policies admit the site's Prometheus only."""
    start_http_server(port)
