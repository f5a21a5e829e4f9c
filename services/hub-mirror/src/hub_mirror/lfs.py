"""Uploads of large files, by git LFS: links, and what is sent to them."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Iterable
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from hub_mirror import published, uploads
from hub_mirror.bodies import MOST_OBJECTS, SHA256, is_sha256, is_size, read_object
from hub_mirror.mirror import Mirror, TheMirror
from hub_mirror.names import Kind, repository, segments
from hub_mirror.published import Published
from hub_mirror.readers import Reader, Who
from hub_mirror.refusals import refusal
from hub_mirror.responses import json_response
from hub_mirror.writers import username, writable
from strata_http import audit
from strata_http.audit import Change, describe

LINK_SECONDS = 6 * 3600
MEDIA_TYPE = "application/vnd.git-lfs+json"

router = APIRouter(tags=["publishing"])


@router.post("/{path:path}.git/info/lfs/objects/batch", include_in_schema=False)
async def batch(request: Request, mirror: TheMirror, who: Who) -> Response:
    """Links for uploads of large files, of git LFS."""
    audit.skip(request)
    parts = segments(request.scope["raw_path"])[:-4]
    kind: Kind = "datasets" if parts[0] == "datasets" else "models"
    parts = [*parts[1 if kind == "datasets" else 0 : -1], parts[-1].removesuffix(".git")]
    record = await writable(mirror, who, repository(kind, parts))
    asked = await read_object(request)
    if asked.get("operation") != "upload":
        raise refusal(400, "this hub has LFS for uploads alone: download files by /resolve/")
    sizes = _objects(asked.get("objects"))
    async with mirror.engine.connect() as connection:
        recorded = await published.present(connection, record.number, list(sizes))
        used = await published.usage(connection, record.tenant)
    known = await asyncio.to_thread(_stored, mirror, record, recorded)
    shown: list[dict[str, Any]] = []
    for oid, size in sizes.items():
        entry: dict[str, Any] = {"oid": oid, "size": size}
        if oid not in known:
            used += 0 if oid in recorded else size
            if used > mirror.settings.tenant_bytes:
                entry["error"] = {"code": 413, "message": uploads.over_limit(mirror, record).detail}
            else:
                entry["actions"] = {"upload": {"href": _link(mirror, who, record, oid, size), "header": {}}}
        shown.append(entry)
    response = json_response({"transfer": "basic", "objects": shown, "hash_algo": "sha256"})
    response.headers["Content-Type"] = MEDIA_TYPE
    return response


Number = Annotated[int, Path(ge=1, lt=2**63)]
Hash = Annotated[str, Path(pattern=f"^{SHA256}$")]


@router.put("/uploads/{number}/{sha256}", include_in_schema=False)
async def upload(  # the parts of a signed link
    request: Request,
    mirror: TheMirror,
    number: Number,
    sha256: Hash,
    size: int,
    until: int,
    author: str,
    signature: str,
) -> Response:
    """A large file, at a link that was made for it and replaces a token."""
    describe(request, Change("objects.upload", f"objects/{sha256}", username=author))
    expected = mirror.sign(number, sha256, size, until, author)
    if not hmac.compare_digest(signature.encode(), expected.encode()) or until < time.time():
        raise refusal(403, "the link of this upload has expired, or is none of this hub: request another")
    async with mirror.engine.connect() as connection:
        record = await published.numbered(connection, number)
    if record is None:
        raise refusal(404, "the repository of this upload was deleted")
    describe(
        request, Change("objects.upload", f"{record.repository.kind}/{record.repository.id}", record.tenant, author)
    )
    await uploads.store_stream(mirror, record, request.stream(), sha256, size)
    return Response(status_code=200)


def _stored(mirror: Mirror, record: Published, hashes: Iterable[str]) -> set[str]:
    """Those whose bytes are there: after an incomplete restore, clients upload the others again."""
    return {sha256 for sha256 in hashes if published.object_path(mirror.published, record.tenant, sha256).is_file()}


def _link(mirror: Mirror, who: Reader, record: Published, oid: str, size: int) -> str:
    """For one upload: huggingface_hub sends no token to it."""
    until, author = int(time.time()) + LINK_SECONDS, username(who)
    signature = mirror.sign(record.number, oid, size, until, author)
    query = urlencode({"size": size, "until": until, "author": author, "signature": signature})
    return f"{who.base_url}/uploads/{record.number}/{oid}?{query}"


def _objects(value: Any) -> dict[str, int]:
    if not isinstance(value, list) or len(value) > MOST_OBJECTS:
        raise refusal(400, f"objects must be a list of at most {MOST_OBJECTS}")
    sizes: dict[str, int] = {}
    for item in value:
        oid, size = (item.get("oid"), item.get("size")) if isinstance(item, dict) else (None, None)
        if not is_sha256(oid) or not is_size(size):
            raise refusal(400, "an object has no SHA-256 as oid, or no size")
        sizes[oid] = size
    return sizes
