"""The log of a pod."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from pods.access import PODS
from pods.routes.actions import get_pod_logs
from pods.routes.pods import PodName
from strata_http.database import Connection
from strata_http.web.guards import Visitor
from strata_http.web.responses import render

router = APIRouter()
LONGEST = 256 * 1024
"""Characters of a log that a page shows: its end."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


@router.get("/pods/{pod_id}/log")
async def show_log(request: Request, visitor: Visitor, pod_id: PodName, connection: Connection) -> Response:
    """Needs READ."""
    text = (await get_pod_logs(request, visitor, pod_id, connection)).result.logs[-LONGEST:]
    # colors of terminals mean nothing here
    shares = await PODS.level(connection, pod_id, visitor.username) != "READ"
    return render(request, "log.html", pod_id=pod_id, shares=shares, log=_COLORS.sub("", text))


@router.get("/pods/{pod_id}/log.txt")
async def send_log(request: Request, visitor: Visitor, pod_id: PodName, connection: Connection) -> Response:
    """Needs READ; unchanged, and never as a page, because a pod's program may be anyone's."""
    text = (await get_pod_logs(request, visitor, pod_id, connection)).result.logs[-LONGEST:]
    return PlainTextResponse(text, headers=HEADERS)
