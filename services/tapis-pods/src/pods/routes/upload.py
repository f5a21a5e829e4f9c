"""Uploads to volumes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from pods.access import VOLUMES, Person
from pods.folders import folder, new_file, write_all
from pods.routes.contents import FilePath
from pods.routes.pods import MISSING
from pods.routes.storage import STORAGE, answered, checked_parts, storage_of
from pods.routes.volumes import VolumeName
from pods.settings import FilesSettings
from pods.storage import FOLDERS
from pods.uploads import Malformed, file_of
from strata_http.audit import Change, describe
from strata_http.database import Connection
from strata_http.envelope import ENVELOPE, Envelope, success

router = APIRouter(prefix="/pods/volumes", tags=["files"])
TOO_LONG = ENVELOPE.described({413: "The file is longer than this site takes."})
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary", "description": "Content."}},
                }
            }
        },
    }
}


@router.post(
    "/{volume_id}/upload/{path:path}",
    operation_id="upload_to_volume",
    summary="Write a file",
    responses=MISSING | STORAGE | TOO_LONG,
    openapi_extra=BODY,
)
async def upload_to_volume(
    request: Request, caller: Person, volume_id: VolumeName, path: FilePath, connection: Connection
) -> Envelope[str]:
    """Needs USER; makes missing folders, and replaces a file by the same name once all of the new one has come."""
    row = await VOLUMES.find(connection, caller, volume_id, "USER")
    # a long upload must not keep a connection that other requests wait for
    await connection.close()
    describe(request, Change("volumes.upload", f"pods/volumes/{volume_id}", row["tenant"]))
    parts, storage = checked_parts(path, "path"), storage_of(request)
    if not parts:
        raise HTTPException(400, "path: must not be empty or /")
    settings: FilesSettings = request.app.state.settings
    what = f"volume {volume_id}: {path}"
    with answered(what), storage.partial(row["tenant"], "upload") as (own, partial):
        descriptor = await run_in_threadpool(new_file, own, partial)
        try:
            try:
                await _receive(descriptor, file_of(request.headers, request.stream()), settings.upload_mebibytes)
            except (Malformed, ClientDisconnect) as error:
                raise HTTPException(400, f"{what}: {error or 'the connection ended'}") from None
            await run_in_threadpool(os.fsync, descriptor)
        finally:
            os.close(descriptor)

        def publish() -> None:
            with (
                storage.open(row["tenant"], FOLDERS["volume"], volume_id) as root,
                folder(root, parts[:-1], create=True) as parent,
            ):
                os.rename(partial, parts[-1], src_dir_fd=own, dst_dir_fd=parent)

        await run_in_threadpool(publish)
    return success(request, "File uploaded successfully.", "/".join(parts))


async def _receive(descriptor: int, content: AsyncIterator[bytes], mebibytes: int) -> None:
    left = mebibytes * 2**20
    async for chunk in content:
        left -= len(chunk)
        if left < 0:
            raise HTTPException(413, f"a file may have at most {mebibytes} MiB at this site")
        await run_in_threadpool(write_all, descriptor, chunk)
