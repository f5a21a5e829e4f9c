"""The page that asks before a pod is deleted."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from pods.access import PODS
from pods.routes.pods import PodName, delete_pod
from strata_http.database import Connection, Transaction
from strata_http.web.guards import Visitor
from strata_http.web.responses import go_to, render

router = APIRouter()


@router.get("/pods/{pod_id}/delete")
async def ask(request: Request, visitor: Visitor, pod_id: PodName, connection: Connection) -> Response:
    """Needs ADMIN."""
    return render(request, "delete.html", row=await PODS.find(connection, visitor, pod_id, "ADMIN"))


@router.post("/pods/{pod_id}/delete")
async def delete(request: Request, visitor: Visitor, pod_id: PodName, connection: Transaction) -> Response:
    """Needs ADMIN."""
    await delete_pod(request, visitor, pod_id, connection)
    return go_to("/")
