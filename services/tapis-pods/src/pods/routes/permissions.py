"""Permissions of a kind of object; the same routes for each."""
# no postponed annotations: FastAPI reads the parameters' names and texts, which are the kind's

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Path, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from pods import store
from pods.access import PODS, Person, Shared
from pods.routes.pods import MISSING
from pods.routes.shapes import Permissions, SetPermission
from pods.values import Text
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import Envelope, success


async def _not_noted(connection: AsyncConnection, name: str, line: str) -> None:
    """For objects without action_logs; the audit record has it."""


def permission_routes(
    shared: Shared, prefix: str, note: Callable[[AsyncConnection, str, str], Awaitable[None]] = _not_noted
) -> APIRouter:
    """GET, POST and DELETE of an object's permissions.

    Args:
        shared: kind of the objects.
        prefix: of their routes, such as `/pods/volumes`.
        note: notes a change with the object (connection, name, line).
    """
    kind, title = shared.kind, shared.kind.capitalize()
    router = APIRouter(prefix=prefix, tags=["permissions"])
    Name = Annotated[Text, Path(alias=f"{kind}_id", min_length=1, max_length=64, description=f"Name of the {kind}.")]
    User = Annotated[Text, Path(min_length=1, max_length=128)]
    path = f"/{{{kind}_id}}/permissions"

    @router.get(
        path,
        operation_id=f"get_{kind}_permissions",
        summary=f"Who may use a {kind}",
        description="Needs USER.",
        responses=MISSING,
    )
    async def get(request: Request, caller: Person, name: Name, connection: Connection) -> Envelope[Permissions]:
        await shared.find(connection, caller, name, "USER")
        result = Permissions(permissions=await shared.granted(connection, name))
        return success(request, f"{title} permissions retrieved successfully.", result)

    @router.post(
        path,
        operation_id=f"set_{kind}_permission",
        summary="Give a permission",
        description=f"Needs ADMIN; it takes effect for members of the {kind}'s tenant only.",
        responses=MISSING,
    )
    async def give(
        request: Request, caller: Person, name: Name, given: SetPermission, connection: Transaction
    ) -> Envelope[Permissions]:
        found = await shared.find(connection, caller, name, "ADMIN", change=True)
        describe(request, Change(f"{kind}s.permissions.set", f"{prefix[1:]}/{name}", found["tenant"]))
        await shared.grant(connection, name, given.user, given.level)
        await note(connection, name, f"{caller.username} gave {given.user} {given.level}")
        result = Permissions(permissions=await shared.granted(connection, name))
        return success(request, f"{title} permissions updated successfully.", result)

    @router.delete(
        f"{path}/{{user}}",
        operation_id=f"delete_{kind}_permission",
        summary="Take a permission away",
        description="Needs ADMIN; the last ADMIN stays.",
        responses=MISSING,
    )
    async def take(
        request: Request, caller: Person, name: Name, user: User, connection: Transaction
    ) -> Envelope[Permissions]:
        found = await shared.find(connection, caller, name, "ADMIN", change=True)
        describe(request, Change(f"{kind}s.permissions.delete", f"{prefix[1:]}/{name}", found["tenant"]))
        await shared.revoke(connection, name, user)
        await note(connection, name, f"{caller.username} took {user}'s permission away")
        result = Permissions(permissions=await shared.granted(connection, name))
        return success(request, f"{title} permission deleted successfully.", result)

    return router


router = permission_routes(PODS, "/pods", store.act)
