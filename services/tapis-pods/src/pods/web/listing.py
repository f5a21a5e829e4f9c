"""The page with all pods that the visitor may see."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from pods.access import PODS
from pods.routes.pods import settings_of
from pods.web.addresses import addresses
from pods.web.states import state_of
from strata_http.database import Connection
from strata_http.web.guards import Visitor
from strata_http.web.responses import render

router = APIRouter()


@router.get("/")
async def show_pods(request: Request, visitor: Visitor, connection: Connection) -> Response:
    """By name; those of tenants that the visitor is no longer a member of are left out."""
    domain = settings_of(request).domain
    rows = (await connection.execute(PODS.visible(visitor))).mappings().all()
    pods = [
        {
            "row": row,
            "state": state_of(row),
            "source": row["spec"].get("template", "").partition(":")[0] or row["spec"]["image"],
            "http": [address for address in addresses(row, domain) if address.protocol == "http"],
        }
        for row in rows
    ]
    return render(request, "pods.html", pods=pods)
