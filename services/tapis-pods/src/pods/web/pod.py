"""The page of one pod, with its buttons."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.access import LEVELS, PODS
from pods.routes.pods import PodName, set_status, settings_of
from pods.spec import PodSpec
from pods.web.addresses import addresses
from pods.web.attempts import Refusal, attempt
from pods.web.states import can_start, can_stop, state_of
from strata_http.database import Connection, Transaction
from strata_http.tokens import Caller
from strata_http.web.guards import Visitor
from strata_http.web.responses import go_to, render

router = APIRouter()
ACTIONS = {"start": "ON", "stop": "OFF", "restart": "RESTART"}
"""Words of the routes, as the API has them."""


@router.get("/pods/{pod_id}")
async def show_pod(request: Request, visitor: Visitor, pod_id: PodName, connection: Connection) -> Response:
    """Needs READ."""
    return await _page(request, connection, visitor, pod_id)


@router.post("/pods/{pod_id}/{action}")
async def act(request: Request, visitor: Visitor, pod_id: PodName, action: str, connection: Transaction) -> Response:
    """Start, stop or restart; needs ADMIN."""
    if action not in ACTIONS:
        raise HTTPException(404, "There is no page at this address.")
    requested = set_status(request, connection, visitor, pod_id, ACTIONS[action])
    refusal = await attempt(connection, requested)
    if refusal is not None:
        return await _page(request, connection, visitor, pod_id, refusal)
    return go_to(f"/pods/{pod_id}")


async def _page(
    request: Request, connection: AsyncConnection, caller: Caller, pod_id: str, refusal: Refusal | None = None
) -> Response:
    row = await PODS.find(connection, caller, pod_id, "READ")
    level = await PODS.level(connection, pod_id, caller.username) or LEVELS[0]
    return render(
        request,
        "pod.html",
        refusal.status if refusal else 200,
        row=row,
        spec=PodSpec.model_validate(row["spec"]),
        reference=row["spec"].get("template", "").partition("@")[0].removesuffix(":latest"),
        state=state_of(row),
        addresses=addresses(row, settings_of(request).domain),
        level=level,
        can_start=can_start(row),
        can_stop=can_stop(row),
        messages=refusal.messages if refusal else (),
    )
