"""Around every request: an id, a line in the log, two metrics, and the audit record of a change."""

from __future__ import annotations

import re
import time
import uuid

import structlog
from fastapi.routing import iter_route_contexts
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strata_http import audit
from strata_http.health import PATHS
from strata_http.metrics import Metrics

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = structlog.get_logger(__name__)


class Observe:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin = time.perf_counter()
        request_id = self._request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 500
        received = dict(scope)  # routing changes the scope

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [
                    (name, value) for name, value in message.get("headers", ()) if status != 405 or name != b"allow"
                ]
                if status == 405:
                    headers.append((b"allow", ", ".join(_allowed(scope, received)).encode()))
                message["headers"] = [*headers, (b"x-request-id", request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self.app(scope, receive, send_with_id)
            finally:
                seconds = time.perf_counter() - begin
                # the template, not the path: metrics must not grow with what callers ask for
                route = getattr(scope.get("route"), "path", "unmatched")
                method = scope["method"] if scope["method"] in METHODS else "other"
                self.metrics.requests.labels(method, route, str(status)).inc()
                self.metrics.latency.labels(method, route).observe(seconds)
                audit.record(scope, status, self.metrics.audit_records)
                # probes come every few seconds; they are logged only when they fail
                if status >= 400 or scope["path"] not in PATHS:
                    log.info(
                        "request",
                        method=scope["method"],
                        path=scope["path"],
                        status=status,
                        milliseconds=round(seconds * 1000, 1),
                        subject=state.get("subject"),
                    )

    @staticmethod
    def _request_id(scope: Scope) -> str:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        for name, value in headers:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(text := value.decode("latin-1")):
                return text
        return uuid.uuid4().hex


def _allowed(scope: Scope, received: Scope) -> list[str]:
    """Methods of a path: each has a route of its own, and the framework names that of the first one alone.

    Routes of a wider path, /notes/{note} beside /notes/tags, are not its own.
    """
    routes, matched = received["app"].router.routes, scope.get("route")
    contexts = list(iter_route_contexts(routes))
    paths = {context.path for context in contexts if matched is not None and context.original_route is matched}
    if paths:
        return sorted({method for context in contexts if context.path in paths for method in context.methods or ()})
    return [m for m in sorted(METHODS) if any(r.matches({**received, "method": m})[0] is Match.FULL for r in routes)]
