"""Permissions of a pod."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from pods import access, store
from pods.access import Person
from pods.routes.pods import MISSING, PodName
from pods.routes.shapes import Permissions, SetPermission
from pods.values import Text
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import Envelope, success

router = APIRouter(prefix="/pods", tags=["permissions"])


@router.get("/{pod_id}/permissions", operation_id="get_pod_permissions", summary="Who may use a pod", responses=MISSING)
async def get_pod_permissions(
    request: Request, caller: Person, pod_id: PodName, connection: Connection
) -> Envelope[Permissions]:
    """Needs USER."""
    await access.find(connection, caller, pod_id, "USER")
    result = Permissions(permissions=await access.granted(connection, pod_id))
    return success(request, "Pod permissions retrieved successfully.", result)


@router.post("/{pod_id}/permissions", operation_id="set_pod_permission", summary="Give a permission", responses=MISSING)
async def set_pod_permission(
    request: Request, caller: Person, pod_id: PodName, given: SetPermission, connection: Transaction
) -> Envelope[Permissions]:
    """Needs ADMIN; it takes effect for members of the pod's tenant only."""
    found = await access.find(connection, caller, pod_id, "ADMIN", change=True)
    describe(request, Change("pods.permissions.set", f"pods/{pod_id}", found["tenant"]))
    await access.grant(connection, pod_id, given.user, given.level)
    await store.act(connection, pod_id, f"{caller.username} gave {given.user} {given.level}")
    result = Permissions(permissions=await access.granted(connection, pod_id))
    return success(request, "Pod permissions updated successfully.", result)


@router.delete(
    "/{pod_id}/permissions/{user}",
    operation_id="delete_pod_permission",
    summary="Take a permission away",
    responses=MISSING,
)
async def delete_pod_permission(
    request: Request,
    caller: Person,
    pod_id: PodName,
    user: Annotated[Text, Path(min_length=1, max_length=128)],
    connection: Transaction,
) -> Envelope[Permissions]:
    """Needs ADMIN; the last ADMIN stays."""
    found = await access.find(connection, caller, pod_id, "ADMIN", change=True)
    describe(request, Change("pods.permissions.delete", f"pods/{pod_id}", found["tenant"]))
    await access.revoke(connection, pod_id, user)
    await store.act(connection, pod_id, f"{caller.username} took {user}'s permission away")
    result = Permissions(permissions=await access.granted(connection, pod_id))
    return success(request, "Pod permission deleted successfully.", result)
