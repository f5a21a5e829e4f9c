"""Snapshots: copies of what is in a volume, which pods mount read-only."""

from __future__ import annotations

import os
import stat
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping, func, update
from starlette.concurrency import run_in_threadpool

from pods.access import SNAPSHOTS, VOLUMES, Person
from pods.folders import folder
from pods.mounting import refuse_mounted
from pods.paths import LONGEST_PATH
from pods.routes.pods import MISSING
from pods.routes.shapes import SnapshotResult
from pods.routes.storage import STORAGE, answered, checked_parts, storage_of
from pods.routes.volumes import IN_USE, SizeLimit
from pods.storage import FOLDERS, Storage
from pods.tables import NOTIFY_FILES, snapshots
from pods.values import Description, Text, VolumeId
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import Envelope, success

router = APIRouter(prefix="/pods/snapshots", tags=["snapshots"])
SnapshotName = Annotated[Text, Path(min_length=1, max_length=64, description="Name of the snapshot.")]


class UpdateSnapshot(BaseModel):
    """Body of PUT; fields that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    description: Description = ""
    size_limit: SizeLimit = 1024
    cron: Literal[""] = Field(default="", description="Not available: must be empty.")
    retention_policy: Literal[""] = Field(default="", description="Not available: must be empty.")


class NewSnapshot(UpdateSnapshot):
    """Body of POST."""

    snapshot_id: VolumeId = Field(description="Name, unique at the site.")
    source_volume_id: Text = Field(max_length=64, description="Volume that is copied.")
    source_volume_path: Annotated[Text, Field(max_length=LONGEST_PATH)] = Field(
        description="Folder or file in it; / or empty: all."
    )
    destination_path: Annotated[Text, Field(max_length=LONGEST_PATH)] = Field(
        default="", description="Path in the snapshot; a file needs one."
    )


def _result(row: RowMapping) -> SnapshotResult:
    return SnapshotResult.model_validate({**row, "compute_queue": row["tenant"]})


@router.get("", operation_id="list_snapshots", summary="Snapshots that you have a permission for")
async def list_snapshots(request: Request, caller: Person, connection: Connection) -> Envelope[list[SnapshotResult]]:
    """By name."""
    results = [_result(row) for row in (await connection.execute(SNAPSHOTS.visible(caller))).mappings()]
    return success(request, "Snapshots retrieved successfully.", results, count=len(results))


@router.post("", operation_id="create_snapshot", summary="Copy a volume", responses=MISSING | IN_USE | STORAGE)
async def create_snapshot(
    request: Request, caller: Person, given: NewSnapshot, connection: Transaction
) -> Envelope[SnapshotResult]:
    """Needs READ for the volume. It is AVAILABLE once all is copied; what pods write meanwhile may be in it or not."""
    name = given.snapshot_id
    volume = await VOLUMES.find(connection, caller, given.source_volume_id, "READ", change=True)
    tenant = volume["tenant"]
    describe(request, Change("snapshots.create", f"pods/snapshots/{name}", tenant))
    parts = checked_parts(given.source_volume_path, "source_volume_path")
    target = checked_parts(given.destination_path, "destination_path")
    with answered(f"source_volume_path: {given.source_volume_path}"):
        is_folder = await run_in_threadpool(_is_folder, storage_of(request), tenant, given.source_volume_id, parts)
    if not is_folder and not target:
        raise HTTPException(400, "destination_path: a snapshot of a file needs the file's path in the snapshot")
    columns = {
        "tenant": tenant,
        "source_volume_id": given.source_volume_id,
        "source_volume_path": "/".join(parts),
        "destination_path": "/".join(target),
        "description": given.description,
        "size_limit": given.size_limit,
    }
    if not await SNAPSHOTS.add(connection, name, caller.username, columns):
        raise HTTPException(409, f"snapshot_id: {name} is in use, or is still being deleted; choose another name")
    await connection.execute(NOTIFY_FILES)
    row = await SNAPSHOTS.find(connection, caller, name, "ADMIN")
    return success(request, "Snapshot created successfully.", _result(row))


def _is_folder(storage: Storage, tenant: str, volume: str, parts: tuple[str, ...]) -> bool:
    with storage.open(tenant, FOLDERS["volume"], volume) as root, folder(root, parts[:-1]) as parent:
        # a link is copied as one: it is not a folder
        mode = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode if parts else stat.S_IFDIR
    return stat.S_ISDIR(mode)


@router.get("/{snapshot_id}", operation_id="get_snapshot", summary="A snapshot", responses=MISSING)
async def get_snapshot(
    request: Request, caller: Person, snapshot_id: SnapshotName, connection: Connection
) -> Envelope[SnapshotResult]:
    """Needs READ."""
    row = await SNAPSHOTS.find(connection, caller, snapshot_id, "READ")
    return success(request, "Snapshot retrieved successfully.", _result(row))


@router.put("/{snapshot_id}", operation_id="update_snapshot", summary="Change a snapshot", responses=MISSING)
async def update_snapshot(
    request: Request, caller: Person, snapshot_id: SnapshotName, given: UpdateSnapshot, connection: Transaction
) -> Envelope[SnapshotResult]:
    """Needs USER; the files stay as they are."""
    row = await SNAPSHOTS.find(connection, caller, snapshot_id, "USER", change=True)
    describe(request, Change("snapshots.update", f"pods/snapshots/{snapshot_id}", row["tenant"]))
    sent = given.model_dump(exclude_unset=True, exclude={"cron", "retention_policy"})
    if all(row[key] == value for key, value in sent.items()):
        return success(request, "Snapshot unchanged.", _result(row))
    own = snapshots.c.snapshot_id == snapshot_id
    await connection.execute(update(snapshots).where(own).values({**sent, "update_ts": func.now()}))
    row = await SNAPSHOTS.find(connection, caller, snapshot_id, "READ")
    return success(request, "Snapshot updated successfully.", _result(row))


@router.delete(
    "/{snapshot_id}", operation_id="delete_snapshot", summary="Delete a snapshot", responses=MISSING | IN_USE
)
async def delete_snapshot(
    request: Request, caller: Person, snapshot_id: SnapshotName, connection: Transaction
) -> Envelope[str]:
    """Needs ADMIN."""
    row = await SNAPSHOTS.find(connection, caller, snapshot_id, "ADMIN", change=True)
    describe(request, Change("snapshots.delete", f"pods/snapshots/{snapshot_id}", row["tenant"]))
    await refuse_mounted(connection, "snapshot", snapshot_id)
    await connection.execute(update(snapshots).where(snapshots.c.snapshot_id == snapshot_id).values(deleted=True))
    await connection.execute(NOTIFY_FILES)
    return success(request, "Snapshot deleted successfully.", "")
