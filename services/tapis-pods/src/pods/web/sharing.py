"""Who may use a pod."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.access import LEVELS, PODS
from pods.routes.permissions import PODS_SHARING
from pods.routes.pods import PodName
from pods.routes.shapes import SetPermission
from pods.values import Text
from pods.web.attempts import Refusal, attempt
from strata_http.database import Connection, Transaction
from strata_http.tokens import Caller
from strata_http.web.guards import Visitor
from strata_http.web.responses import go_to, render

router = APIRouter()
MEANINGS = {
    "READ": "sees the pod and its log",
    "USER": "changes it too, and sees its credentials",
    "ADMIN": "also starts, stops, shares and deletes it, and runs commands in it",
}
WRONG_USER = "User name: write the name with which the person logs in"


@router.get("/pods/{pod_id}/sharing")
async def show_permissions(request: Request, visitor: Visitor, pod_id: PodName, connection: Connection) -> Response:
    """Needs USER."""
    return await _page(request, connection, visitor, pod_id)


@router.post("/pods/{pod_id}/sharing")
async def give(
    request: Request,
    visitor: Visitor,
    pod_id: PodName,
    connection: Transaction,
    user: Annotated[str, Form()] = "",
    level: Annotated[str, Form()] = "",
) -> Response:
    """Needs ADMIN."""
    user = user.strip()
    try:
        given = SetPermission.model_validate({"user": user, "level": level})
    except ValidationError:
        return await _page(request, connection, visitor, pod_id, Refusal(400, (WRONG_USER,)), user, level)
    refusal = await attempt(connection, PODS_SHARING.give(request, visitor, pod_id, given, connection))
    if refusal is not None:
        return await _page(request, connection, visitor, pod_id, refusal, user, level)
    # whoever gives up ADMIN may see this page no longer
    return go_to(f"/pods/{pod_id}" if user == visitor.username else f"/pods/{pod_id}/sharing")


@router.post("/pods/{pod_id}/sharing/remove")
async def take(
    request: Request, visitor: Visitor, pod_id: PodName, connection: Transaction, user: Annotated[Text, Form()] = ""
) -> Response:
    """Needs ADMIN."""
    refusal = await attempt(connection, PODS_SHARING.take(request, visitor, pod_id, user, connection))
    if refusal is not None:
        return await _page(request, connection, visitor, pod_id, refusal)
    return go_to("/" if user == visitor.username else f"/pods/{pod_id}/sharing")


async def _page(
    request: Request,
    connection: AsyncConnection,
    caller: Caller,
    pod_id: str,
    refusal: Refusal | None = None,
    user: str = "",
    level: str = LEVELS[0],
) -> Response:
    permissions = await PODS_SHARING.list(caller, pod_id, connection)
    return render(
        request,
        "sharing.html",
        refusal.status if refusal else 200,
        pod_id=pod_id,
        tenant=(await PODS.find(connection, caller, pod_id, "USER"))["tenant"],
        # names have no colon
        permissions=[tuple(permission.rsplit(":", 1)) for permission in permissions],
        meanings=MEANINGS,
        can_change=await PODS.level(connection, pod_id, caller.username) == "ADMIN",
        user=user,
        level=level,
        messages=refusal.messages if refusal else (),
    )
