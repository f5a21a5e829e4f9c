"""The server of a service's application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_http.settings import BindSettings

if TYPE_CHECKING:
    from starlette.applications import Starlette


def serve(app: Starlette, settings: BindSettings) -> None:
    """Serves until the process is told to end."""
    import uvicorn  # late: a service's other commands import this and need no web server

    uvicorn.run(
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
