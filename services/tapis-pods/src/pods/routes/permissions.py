"""Permissions of a kind of object; the same routes for each."""
# no postponed annotations: FastAPI reads the parameters' names and texts, which are the kind's

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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
from strata_http.tokens import Caller


async def _not_noted(connection: AsyncConnection, name: str, line: str) -> None:
    """For objects without action_logs; the audit record has it."""


@dataclass(frozen=True)
class Sharing:
    """Changes of the permissions of one kind of object.

    Args:
        shared: kind of the objects.
        prefix: of their routes, such as `/pods/volumes`.
        note: notes a change with the object (connection, name, line).
    """

    shared: Shared
    prefix: str
    note: Callable[[AsyncConnection, str, str], Awaitable[None]] = _not_noted

    async def list(self, caller: Caller, name: str, connection: AsyncConnection) -> list[str]:
        """Permissions in Tapis' form, "user:LEVEL".

        Raises:
            HTTPException: 404, 403 without USER.
        """
        await self.shared.find(connection, caller, name, "USER")
        return await self.shared.granted(connection, name)

    async def give(
        self, request: Request, caller: Caller, name: str, given: SetPermission, connection: AsyncConnection
    ) -> None:
        """Sets a permission.

        Raises:
            HTTPException: 404, 403 without ADMIN, 400 where no ADMIN would be left.
        """
        await self._find(request, caller, name, "set", connection)
        await self.shared.grant(connection, name, given.user, given.level)
        await self.note(connection, name, f"{caller.username} gave {given.user} {given.level}")

    async def take(self, request: Request, caller: Caller, name: str, user: str, connection: AsyncConnection) -> None:
        """Removes a permission.

        Raises:
            HTTPException: 404 for the object or the permission, 403 without ADMIN, 400 where no ADMIN would be left.
        """
        await self._find(request, caller, name, "delete", connection)
        await self.shared.revoke(connection, name, user)
        await self.note(connection, name, f"{caller.username} took {user}'s permission away")

    async def _find(
        self, request: Request, caller: Caller, name: str, action: str, connection: AsyncConnection
    ) -> None:
        row = await self.shared.find(connection, caller, name, "ADMIN", change=True)
        action = f"{self.shared.kind}s.permissions.{action}"
        describe(request, Change(action, f"{self.prefix[1:]}/{name}", row["tenant"]))


def permission_routes(sharing: Sharing) -> APIRouter:
    """GET, POST and DELETE of an object's permissions."""
    shared, prefix = sharing.shared, sharing.prefix
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
        result = Permissions(permissions=await sharing.list(caller, name, connection))
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
        await sharing.give(request, caller, name, given, connection)
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
        await sharing.take(request, caller, name, user, connection)
        result = Permissions(permissions=await shared.granted(connection, name))
        return success(request, f"{title} permission deleted successfully.", result)

    return router


PODS_SHARING = Sharing(PODS, "/pods", store.act)
router = permission_routes(PODS_SHARING)
