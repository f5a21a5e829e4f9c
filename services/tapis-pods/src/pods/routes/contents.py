"""Files of volumes and snapshots: lists and contents, by the same routes for both."""
# no postponed annotations: FastAPI reads the parameters' names and texts, which are the kind's

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from pods import zips
from pods.access import Person, Shared
from pods.folders import Entry, Held, folder, open_file, read, walk
from pods.paths import LONGEST_PATH
from pods.routes.pods import MISSING
from pods.routes.shapes import File
from pods.routes.storage import STORAGE, answered, checked_parts, storage_of
from pods.storage import FOLDERS
from pods.values import Text
from strata_http.database import Connection
from strata_http.envelope import Envelope, success

MOST_LISTED = 1000
LATEST = 253_402_300_799
"""9999-12-31; a pod may set any time."""
FilePath = Annotated[Text, Path(min_length=1, max_length=LONGEST_PATH, description="Path from the root.")]
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symbolic_link"}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file; with zip, an archive.",
        "content": {"application/octet-stream": _BINARY, "application/zip": _BINARY},
    }
}
# what users wrote is never a page of the API's host
_HEADERS = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}


def content_routes(shared: Shared, prefix: str) -> APIRouter:
    """GET of the list and of contents.

    Args:
        shared: kind of the objects.
        prefix: of their routes, such as `/pods/volumes`.
    """
    kind = shared.kind
    router = APIRouter(prefix=prefix, tags=["files"])
    Name = Annotated[Text, Path(alias=f"{kind}_id", min_length=1, max_length=64, description=f"Name of the {kind}.")]

    @router.get(
        f"/{{{kind}_id}}/list",
        operation_id=f"list_{kind}_files",
        summary=f"Files of a {kind}",
        description=f"Needs READ; all folders, at most {MOST_LISTED} files; metadata.complete is whether that is all.",
        responses=MISSING | STORAGE,
    )
    async def list_files(request: Request, caller: Person, name: Name, connection: Connection) -> Envelope[list[File]]:
        row = await shared.find(connection, caller, name, "READ")
        _check_complete(kind, name, row)
        storage = storage_of(request)

        def listed() -> tuple[list[File], bool]:
            with answered(f"{kind} {name}"), storage.open(row["tenant"], FOLDERS[kind], name) as descriptor:
                entries = list(islice(walk(descriptor, most=MOST_LISTED + 1), MOST_LISTED + 1))
            folders = (entry for entry in entries if stat.S_ISDIR(entry.state.st_mode))
            complete = len(entries) <= MOST_LISTED and all(entry.readable for entry in folders)
            return [_file(entry) for entry in entries[:MOST_LISTED]], complete

        files, complete = await run_in_threadpool(listed)
        message = f"{kind.capitalize()} files retrieved successfully."
        return success(request, message, files, count=len(files), complete=complete)

    @router.get(
        f"/{{{kind}_id}}/contents/{{path:path}}",
        operation_id=f"get_{kind}_contents",
        summary="A file, or a folder as an archive",
        description="Needs READ. Links are not followed, and an archive has none.",
        response_class=StreamingResponse,
        responses=MISSING | STORAGE | _CONTENT,
    )
    async def contents(
        request: Request,
        caller: Person,
        name: Name,
        path: FilePath,
        connection: Connection,
        zip: Annotated[bool, Query(description="Read a folder as a ZIP archive.")] = False,
    ) -> StreamingResponse:
        row = await shared.find(connection, caller, name, "READ")
        _check_complete(kind, name, row)
        parts, storage = checked_parts(path, "path"), storage_of(request)
        if not parts:
            raise HTTPException(400, "path: must not be empty or /")

        def opened() -> tuple[Held, int]:
            with answered(f"{kind} {name}: {path}"), storage.open(row["tenant"], FOLDERS[kind], name) as descriptor:
                if zip:
                    with folder(descriptor, parts) as chosen:
                        zips.check(chosen)
                        return Held(os.dup(chosen)), 0
                with folder(descriptor, parts[:-1]) as parent:
                    found_file = Held(open_file(parent, parts[-1]))
                    return found_file, os.fstat(found_file.descriptor).st_size

        held, size = await run_in_threadpool(opened)
        if zip:
            return StreamingResponse(zips.stream(held), media_type="application/zip", headers=_HEADERS)
        headers = {**_HEADERS, "Content-Length": str(size)}
        return StreamingResponse(_read(held, size), media_type="application/octet-stream", headers=headers)

    return router


def _check_complete(kind: str, name: str, row: Any) -> None:
    if row.get("status", "AVAILABLE") != "AVAILABLE":
        why = f" ({row['status_message']})" if row["status_message"] else ""
        raise HTTPException(404, f"{kind} {name} is {row['status']}{why}: it has no files")


def _read(held: Held, size: int) -> Iterator[bytes]:
    yield from read(held.descriptor, size)


def _file(entry: Entry) -> File:
    state = entry.state
    return File(
        path=zips.printable(entry.path),
        name=zips.printable(entry.name),
        type=_TYPES.get(stat.S_IFMT(state.st_mode), "other"),
        size=state.st_size,
        lastModified=datetime.fromtimestamp(min(max(state.st_mtime, 0), LATEST), UTC),
        nativePermissions=stat.filemode(state.st_mode),
    )
