"""Commits: which files come inside of one, and what it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hub_mirror import published, uploads
from hub_mirror.bodies import MOST_OBJECTS, is_sha256, is_size, parse_object, read_object
from hub_mirror.card_metadata import CARD, read_metadata
from hub_mirror.mirror import Mirror
from hub_mirror.names import MAIN, checked_path
from hub_mirror.published import File, Published, object_path
from hub_mirror.readers import Reader
from hub_mirror.refusals import refusal, repository_not_found
from hub_mirror.responses import json_response
from hub_mirror.writers import username
from strata_http.database import transaction

REGULAR_BYTES = 10 * 2**20
"""Most of a file that comes inside of a commit."""
LONGEST_LINE = 2 * REGULAR_BYTES
MOST_FILES = 10_000
"""Of a repository."""


async def preupload(request: Request) -> Response:
    """Small files come inside of the commit, others by git LFS."""
    asked = (await read_object(request)).get("files")
    if not isinstance(asked, list) or len(asked) > MOST_OBJECTS:
        raise refusal(400, f"files must be a list of at most {MOST_OBJECTS}")
    shown = []
    for file in asked:
        path, size = (file.get("path"), file.get("size")) if isinstance(file, dict) else (None, None)
        if not isinstance(path, str) or not is_size(size):
            raise refusal(400, "a file has no path or no size")
        mode = "regular" if size is None or size <= REGULAR_BYTES else "lfs"
        shown.append({"path": checked_path(path), "uploadMode": mode, "shouldIgnore": False, "oid": None})
    return json_response({"files": shown})


async def _lines(request: Request) -> AsyncIterator[dict[str, Any]]:
    """Lines of JSON, as they arrive: key and value."""
    rest = bytearray()
    async for chunk in request.stream():
        rest += chunk
        while (end := rest.find(b"\n")) >= 0:
            line, rest = bytes(rest[:end]), rest[end + 1 :]
            if line.strip():
                yield parse_object(line)
        if len(rest) > LONGEST_LINE:
            raise refusal(413, f"a file inside of a commit may have {REGULAR_BYTES} bytes: upload it by LFS")
    if rest.strip():
        yield parse_object(bytes(rest))


class _Header(BaseModel):
    model_config = ConfigDict(extra="ignore")

    summary: Annotated[str, Field(max_length=1000)] = ""
    description: Annotated[str, Field(max_length=65_536)] = ""
    parentCommit: Annotated[str | None, Field(max_length=40)] = None  # the Hub's name


async def add_commit(request: Request, mirror: Mirror, who: Reader, record: Published) -> Response:
    """All operations of a request, or none.

    Raises:
        HTTPException: 400, 412, 413; nothing was changed.
    """
    header = _Header()
    added: dict[str, File] = {}
    deleted: list[str] = []
    async for line in _lines(request):
        key, value = line.get("key"), line.get("value")
        if not isinstance(value, dict):
            raise refusal(400, "a line of the commit has no value")
        if key == "header":
            header = _read_header(value)
            continue
        path = _path_of(value)
        if key == "file":
            if value.get("encoding") != "base64" or not isinstance(value.get("content"), str):
                raise refusal(400, f"file {path} has no content in base64")
            added[path] = await uploads.store_text(mirror, record, value["content"])
        elif key == "lfsFile":
            added[path] = await _uploaded(mirror, record, path, value)
        elif key in ("deletedFile", "deletedFolder"):
            deleted.append(path if key == "deletedFile" else f"{path}/")
        else:
            raise refusal(400, f"this hub cannot do {str(key)[:50]!r} in a commit: add and delete files")
        if len(added) > MOST_FILES:
            raise _too_many()
    sha = await _add(request, mirror, who, record, header, added, deleted)
    url = f"{who.base_url}{record.repository.web_path}/commit/{sha}"
    return json_response({"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})


def _read_header(value: dict[str, Any]) -> _Header:
    try:
        header = _Header.model_validate(value)
    except ValidationError as error:
        raise refusal(400, "the header of the commit holds values that cannot be") from error
    if "\0" in header.summary + header.description:
        raise refusal(400, "the message of the commit holds a NUL character")
    return header


def _path_of(value: dict[str, Any]) -> str:
    path = value.get("path")
    if not isinstance(path, str):
        raise refusal(400, "a line of the commit has no path")
    return checked_path(path.rstrip("/"))


def _too_many() -> HTTPException:
    return refusal(413, f"a repository may have {MOST_FILES} files")


async def _uploaded(mirror: Mirror, record: Published, path: str, value: dict[str, Any]) -> File:
    oid, size = value.get("oid"), value.get("size")
    if value.get("algo", "sha256") != "sha256" or not is_sha256(oid):
        raise refusal(400, f"file {path} has no SHA-256 as oid")
    async with mirror.engine.connect() as connection:
        known = await published.present(connection, record.number, [oid])
    if oid not in known or (size is not None and size != known[oid]):
        raise refusal(400, f"file {path}: its bytes were not uploaded to this repository, or have another size")
    return File(oid, known[oid], uploads.pointer_oid(oid, known[oid]), large=True)


async def _add(  # the parts of one commit
    request: Request, mirror: Mirror, who: Reader, record: Published, header: _Header, added: dict[str, File],
    deleted: list[str],
) -> str:  # fmt: skip
    async with transaction(request) as connection:
        locked = await published.find(connection, record.repository, lock=True)
        if locked is None or locked.number != record.number:
            raise repository_not_found(record.repository.id, anonymous=False)
        if header.parentCommit not in (None, locked.head):
            raise refusal(412, f"{MAIN} is at commit {locked.head}, not at {header.parentCommit}: read it again")
        last = await published.commit_of(connection, locked, MAIN)
        files = dict(last.files) if last is not None else {}
        for path in deleted:
            gone = [name for name in files if name == path or (path.endswith("/") and name.startswith(path))]
            for name in gone:
                del files[name]
        files |= added
        folders = {name[:index] for name in files for index, letter in enumerate(name) if letter == "/"}
        if both := folders & files.keys():
            raise refusal(400, f"{min(both)} would be a file and a folder")
        if len(files) > MOST_FILES:
            raise _too_many()
        title = header.summary or "commit"
        card = await _card(mirror, record, files.get(CARD))
        return await published.add_commit(connection, locked, files, title, header.description, username(who), card)


async def _card(mirror: Mirror, record: Published, file: File | None) -> dict[str, Any]:
    if file is None:
        return {}
    return await asyncio.to_thread(read_metadata, object_path(mirror.published, record.tenant, file.sha256))
