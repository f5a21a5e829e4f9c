"""The server of a service's application."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from strata_http.settings import BindSettings

if TYPE_CHECKING:
    from starlette.applications import Starlette


def serve(app: Starlette, settings: BindSettings, *ports: int) -> None:
    """Serves until the process gets SIGTERM.

    Args:
        app: the application; `scope["server"]` has the port that a request came to.
        settings: address and port.
        ports: TCP ports beside that of the settings.
    """
    import uvicorn  # noqa: PLC0415  # a service's other commands need no web server

    configuration = uvicorn.Config(
        app,
        host=settings.bind_address,
        port=settings.bind_port,
        log_config=None,
        access_log=False,
        server_header=False,
        # it would believe X-Forwarded-For of any client on loopback; strata_http.addresses reads it
        proxy_headers=False,
        timeout_graceful_shutdown=20,
    )
    sockets = [_listen(settings.bind_address, port) for port in (settings.bind_port, *ports)] if ports else None
    uvicorn.Server(configuration).run(sockets)


def _listen(address: str, port: int) -> socket.socket:
    """A socket that accepts connections."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=2048)
