"""Audit records: one line of the log, and one count, for each request that changes something, refused ones included."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from fastapi import Request
from prometheus_client import Counter
from starlette.requests import HTTPConnection
from starlette.types import Scope

from strata_http.addresses import client_address

EVENT = "audit"
"""Value of `event` in the log."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})

Outcome = Literal["success", "denied", "failure"]

UNCHANGED: Literal["unchanged"] = "unchanged"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Change:
    """What a route records of the change that it makes; None: what the request has.

    Args:
        action: what is done, "notes.delete"; one of few constants, because it is a label of the metric.
        target: the object, "notes/7".
        tenant: whose object it is.
        username: who does it, at a route without a token.
    """

    action: str | None = None
    target: str | None = None
    tenant: str | None = None
    username: str | None = None


def describe(request: Request, change: Change) -> None:
    """Records more of the change than method and path do; a GET is recorded only if it is described.

    Call it before the change is made, so that the record of a failure has it too.
    """
    request.state.change = change


def skip(request: Request) -> None:
    """Records that a request changes nothing, whatever its method: it is not recorded."""
    request.state.change = UNCHANGED


def record(scope: Scope, status: int, records: Counter) -> None:
    """Writes the record of an answered request, if it changes something. The middleware calls it.

    Args:
        scope: of the request.
        status: of the response.
        records: the count, with the labels action and outcome.
    """
    state: MutableMapping[str, Any] = scope["state"]
    change: Change | Literal["unchanged"] | None = state.get("change")
    route = getattr(scope.get("route"), "path", None)
    if change == UNCHANGED:
        return
    if change is None:
        # 405: the method may be any text, and nothing was tried
        if scope["method"] in READING or route is None or status == 405:
            return
        change = Change()
    action = change.action or f"{scope['method']} {route}"
    outcome: Outcome = "success" if status < 400 else "denied" if status in (401, 403) else "failure"
    records.labels(action, outcome).inc()
    log.info(
        EVENT,
        action=action,
        object=change.target or scope["path"],
        tenant=change.tenant,
        outcome=outcome,
        status=status,
        username=change.username or state.get("username"),
        subject=state.get("subject"),
        address=client_address(HTTPConnection(scope)),
    )
