"""Who may mount what, and what is mounted."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import HTTPException
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.access import SNAPSHOTS, VOLUMES, Level, Shared
from pods.mounts import Mount
from strata_http.tokens import Caller

_SHARED: Mapping[str, Shared] = {shared.kind: shared for shared in (VOLUMES, SNAPSHOTS)}
_MOUNTED = text(
    """
    SELECT pod_id FROM pods WHERE EXISTS (
        SELECT FROM (VALUES (spec), (run_spec)) AS one (spec),
            jsonb_each(coalesce(one.spec -> 'volume_mounts', '{}')) AS mount
        WHERE mount.value ->> 'source_id' = :name AND mount.value ->> 'type' = :type
    ) ORDER BY pod_id
    """
)


async def check_mounts(connection: AsyncConnection, caller: Caller, tenant: str, mounts: Mapping[str, Mount]) -> None:
    """Refuses what the caller may not mount in a pod; a volume that is being deleted waits for the transaction.

    Args:
        connection: in a transaction.
        caller: who creates, changes or starts the pod: all of these decide what it does with the files.
        tenant: of the pod.
        mounts: of the pod.

    Raises:
        HTTPException: 400 for what is not there, or of another tenant, 403 for too low a permission, 409 for a
            snapshot that is not complete.
    """
    # in one order, so that two requests do not wait for each other
    for mount in sorted(mounts.values(), key=lambda mount: (mount.kind, mount.source_id)):
        level: Level = "USER" if mount.writable else "READ"
        try:
            row = await _SHARED[mount.kind].find(connection, caller, mount.source_id, level, change=True)
        except HTTPException as error:
            status = 400 if error.status_code == 404 else error.status_code
            hint = "; READ is enough with read_only: true" if mount.writable and status == 403 else ""
            raise HTTPException(status, f"volume_mounts: {error.detail}{hint}") from None
        what = f"volume_mounts: {mount.kind} {mount.source_id}"
        if row["tenant"] != tenant:
            raise HTTPException(400, f"{what} is of tenant {row['tenant']}, and the pod of {tenant}")
        if row.get("status", "AVAILABLE") != "AVAILABLE":
            raise HTTPException(409, f"{what} is {row['status']}: only an AVAILABLE one can be mounted")


async def refuse_mounted(connection: AsyncConnection, kind: str, name: str) -> None:
    """Refuses the deletion of what a pod mounts; its row must be locked.

    Raises:
        HTTPException: 409; names the pods.
    """
    mounted = await connection.execute(_MOUNTED, {"name": name, "type": f"tapis{kind}"})
    if pods := [str(row.pod_id) for row in mounted]:
        raise HTTPException(
            409,
            f"{kind} {name} is mounted by {', '.join(pods)}: delete these pods, or take it from their volume_mounts",
        )
