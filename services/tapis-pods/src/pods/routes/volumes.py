"""Volumes: folders of a tenant that its pods mount."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping, func, update
from starlette.concurrency import run_in_threadpool

from pods.access import VOLUMES, Person
from pods.mounting import refuse_mounted
from pods.routes.pods import MISSING, choose_tenant, settings_of
from pods.routes.shapes import VolumeResult
from pods.routes.storage import STORAGE, answered, storage_of
from pods.spec import DEFAULT
from pods.tables import NOTIFY_FILES, volumes
from pods.values import Description, Text, VolumeId
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import ENVELOPE, Envelope, success

router = APIRouter(prefix="/pods/volumes", tags=["volumes"])
IN_USE = ENVELOPE.described({409: "Pods mount it, or the name is in use."})
VolumeName = Annotated[Text, Path(min_length=1, max_length=64, description="Name of the volume.")]
SizeLimit = Annotated[int, Field(ge=1, le=2**31 - 1, description="MiB that it should hold; kept, and not enforced.")]


class UpdateVolume(BaseModel):
    """Body of PUT; fields that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    description: Description = ""
    size_limit: SizeLimit = 1024


class NewVolume(UpdateVolume):
    """Body of POST."""

    volume_id: VolumeId = Field(description="Name, unique at the site.")
    compute_queue: Text = Field(default=DEFAULT, description="Tenant whose pods may mount it; default: your only one.")


def _result(row: RowMapping) -> VolumeResult:
    return VolumeResult.model_validate({**row, "compute_queue": row["tenant"]})


@router.get("", operation_id="list_volumes", summary="Volumes that you have a permission for")
async def list_volumes(request: Request, caller: Person, connection: Connection) -> Envelope[list[VolumeResult]]:
    """By name."""
    results = [_result(row) for row in (await connection.execute(VOLUMES.visible(caller))).mappings()]
    return success(request, "Volumes retrieved successfully.", results, count=len(results))


@router.post("", operation_id="create_volume", summary="Create a volume", responses=IN_USE | STORAGE)
async def create_volume(
    request: Request, caller: Person, given: NewVolume, connection: Transaction
) -> Envelope[VolumeResult]:
    """It is AVAILABLE at once."""
    name, tenant = given.volume_id, choose_tenant(settings_of(request), caller, given.compute_queue).name
    describe(request, Change("volumes.create", f"pods/volumes/{name}", tenant))
    columns = {"tenant": tenant, "description": given.description, "size_limit": given.size_limit}
    if not await VOLUMES.add(connection, name, caller.username, columns):
        raise HTTPException(409, f"volume_id: {name} is in use, or is still being deleted; choose another name")
    with answered(f"volume {name}"):
        try:
            await run_in_threadpool(storage_of(request).create, tenant, name)
        except FileExistsError:
            raise HTTPException(
                409, f"volume_id: the storage has files of an unknown volume {name}; choose another name"
            ) from None
    row = await VOLUMES.find(connection, caller, name, "ADMIN")
    return success(request, "Volume created successfully.", _result(row))


@router.get("/{volume_id}", operation_id="get_volume", summary="A volume", responses=MISSING)
async def get_volume(
    request: Request, caller: Person, volume_id: VolumeName, connection: Connection
) -> Envelope[VolumeResult]:
    """Needs READ."""
    row = await VOLUMES.find(connection, caller, volume_id, "READ")
    return success(request, "Volume retrieved successfully.", _result(row))


@router.put("/{volume_id}", operation_id="update_volume", summary="Change a volume", responses=MISSING)
async def update_volume(
    request: Request, caller: Person, volume_id: VolumeName, given: UpdateVolume, connection: Transaction
) -> Envelope[VolumeResult]:
    """Needs USER."""
    row = await VOLUMES.find(connection, caller, volume_id, "USER", change=True)
    describe(request, Change("volumes.update", f"pods/volumes/{volume_id}", row["tenant"]))
    sent = given.model_dump(exclude_unset=True)
    if all(row[key] == value for key, value in sent.items()):
        return success(request, "Volume unchanged.", _result(row))
    own = volumes.c.volume_id == volume_id
    await connection.execute(update(volumes).where(own).values({**sent, "update_ts": func.now()}))
    row = await VOLUMES.find(connection, caller, volume_id, "READ")
    return success(request, "Volume updated successfully.", _result(row))


@router.delete("/{volume_id}", operation_id="delete_volume", summary="Delete a volume", responses=MISSING | IN_USE)
async def delete_volume(
    request: Request, caller: Person, volume_id: VolumeName, connection: Transaction
) -> Envelope[str]:
    """Needs ADMIN; its files go with it, and snapshots stay."""
    row = await VOLUMES.find(connection, caller, volume_id, "ADMIN", change=True)
    describe(request, Change("volumes.delete", f"pods/volumes/{volume_id}", row["tenant"]))
    await refuse_mounted(connection, "volume", volume_id)
    await connection.execute(update(volumes).where(volumes.c.volume_id == volume_id).values(deleted=True))
    await connection.execute(NOTIFY_FILES)
    return success(request, "Volume deleted successfully.", "")
