"""The page at the name of a pod that does not run, for people and programs without a token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import RowMapping, select

from pods import status
from pods.routes.pods import settings_of
from pods.spec import DEFAULT
from pods.tables import pods
from strata_http import audit
from strata_http.database import Connection
from strata_http.rate_limits import limit_address

LIMIT = "600/minute"
RETRY_SECONDS = 5
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
STOPPED = frozenset({status.DELETING, status.STOPPED, status.COMPLETE})
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title></head>
<body><h1>{title}</h1></body>
</html>
"""
_LABEL = re.compile(r"(?P<pod>[a-z][a-z0-9]{2,57})(?:-(?P<key>[a-z0-9]{3,58}))?")

# not below /v3/pods, which the API's own name leads to
router = APIRouter(dependencies=[Depends(limit_address(LIMIT))])


@router.api_route("/status-page", methods=METHODS, include_in_schema=False)
async def show_status(request: Request, connection: Connection) -> HTMLResponse:
    """503 with the state of the pod that the Host header names, 404 where it names none."""
    audit.skip(request)
    target = parse_host(request.headers.get("host", ""), settings_of(request).domain)
    query = select(pods.c.status, pods.c.status_requested, pods.c.spec, pods.c.run_spec)
    row = None
    if target is not None:
        query = query.where(pods.c.pod_id == target[0], pods.c.deleted.is_(False))
        row = (await connection.execute(query)).mappings().one_or_none()
    if row is None or target is None or not _has_name(row, target[1]):
        return page("There is no pod with this name", 404)
    state = coarse_state(row["status"], row["status_requested"])
    retry = {"Retry-After": str(RETRY_SECONDS)} if state == "starting" else {}
    verb = "has" if state == "failed" else "is"
    return page(f"This pod {verb} {state}", 503, retry)


def page(title: str, status: int, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """A page with one line."""
    return HTMLResponse(PAGE.format(title=escape(title)), status, {**HEADERS, **(headers or {})})


def parse_host(host: str, domain: str) -> tuple[str, str] | None:
    """Pod id and key of `networking`, of a Host header; None if it is not the name of a pod."""
    name = host.lower().partition(":")[0].removesuffix(".")
    match = _LABEL.fullmatch(name.removesuffix(f".{domain}")) if name.endswith(f".{domain}") else None
    return match and (match["pod"], match["key"] or DEFAULT)


def coarse_state(state: str, requested: str) -> str:
    """stopped, starting or failed."""
    if state == status.ERROR:
        return "failed"
    if requested == "RESTART":
        return "starting"
    return "stopped" if requested == "OFF" or state in STOPPED else "starting"


def _has_name(row: RowMapping, key: str) -> bool:
    """Whether the pod, or its last run, has a port with that name."""
    specs = [spec.get("networking", {}) for spec in (row["spec"], row["run_spec"]) if spec]
    return any(key in entries and entries[key].get("protocol") != "local_only" for entries in specs)
