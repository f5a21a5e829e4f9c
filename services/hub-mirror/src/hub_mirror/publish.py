"""Routes of the Hub's API that write: members of a tenant publish below the tenant's name."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hub_mirror import published, uploads
from hub_mirror.cards import api_target, find_published, paths_info
from hub_mirror.mirror import Mirror, TheMirror
from hub_mirror.names import (
    MAIN,
    Kind,
    Repository,
    checked_path,
    repository,
    segments,
    take_revision,
)
from hub_mirror.published import File, Published
from hub_mirror.readers import Reader, Who
from hub_mirror.refusals import HUB_ERRORS, INVALID_CREDENTIALS, MESSAGE, refusal, repository_not_found
from hub_mirror.responses import json_response
from strata_http import audit
from strata_http.audit import Change, describe
from strata_http.database import transaction
from strata_http.values import Text

REGULAR_BYTES = 10 * 2**20
"""Most of a file that comes inside of a commit."""
LONGEST_LINE = 2 * REGULAR_BYTES
MOST_FILES = 10_000
"""Of a repository."""
MOST_OBJECTS = 1000
"""Of one request for links."""
LINK_SECONDS = 6 * 3600
LFS = "application/vnd.git-lfs+json"
KINDS_BY_TYPE: dict[str, Kind] = {"model": "models", "dataset": "datasets"}

router = APIRouter(tags=["publishing"])
links_router = APIRouter(tags=["publishing"])
"""Needs no token: an upload's link is one."""


class NamedRepository(BaseModel):
    """A repository, as the Hub's clients name it."""

    model_config = ConfigDict(extra="ignore")

    name: Text = Field(description="Without the tenant, or with it.", examples=["keywords"])
    organization: Text | None = Field(default=None, description="The tenant. Default: the caller's only one.")
    type: Literal["model", "dataset"] | None = Field(default=None, description="Default: model.")


class NewRepository(NamedRepository):
    """A repository as it is created."""

    visibility: Literal["public", "private"] | None = Field(default=None, description="Who reads it. Default: all.")
    private: bool | None = Field(default=None, description="The same, of older clients.")


class Visibility(BaseModel):
    """Who reads a repository."""

    model_config = ConfigDict(extra="ignore")

    visibility: Literal["public", "private"] | None = None
    private: bool | None = None


class Created(BaseModel):
    """The repository that was created."""

    url: str = Field(description="Its page at the Hub; here, where its files are below.")
    name: str
    id: str


@router.post(
    "/api/repos/create",
    summary="Create a repository of a tenant",
    response_model=Created,
    responses=HUB_ERRORS.described({403: "The caller is no member of the tenant.", 409: "There is one by that name."}),
)
async def create(request: Request, mirror: TheMirror, who: Who, new: NewRepository) -> Response:
    """Members of the tenant write to it; all of the site read it, unless it is private."""
    describe(request, Change("repositories.create"))
    target = _named(mirror, who, new)
    describe(request, Change("repositories.create", f"{target.kind}/{target.id}", target.namespace))
    _check_member(mirror, who, target)
    private = new.visibility == "private" or bool(new.private)
    async with transaction(request) as connection:
        found = await published.create(connection, target, _username(who), private=private)
    created = Created(url=f"{who.base_url}{target.web_path}", name=target.id, id=target.id)
    if found is None:
        # with its URL, which clients read that do not mind
        error = {"error": f"there is a repository {target.id} already", "request_id": request.state.request_id}
        return JSONResponse(created.model_dump() | error, 409)
    return JSONResponse(created.model_dump())


@router.delete(
    "/api/repos/delete",
    summary="Delete a repository of a tenant",
    responses=HUB_ERRORS.described(
        {403: "The caller is no member of the tenant.", 404: "There is no such repository."}
    ),
)
async def delete(request: Request, mirror: TheMirror, who: Who, named: NamedRepository) -> dict[str, str]:
    """With all of its commits and files."""
    describe(request, Change("repositories.delete"))
    target = _named(mirror, who, named)
    describe(request, Change("repositories.delete", f"{target.kind}/{target.id}", target.namespace))
    found = await _writable(mirror, who, target)
    async with mirror.tenant_lock(found.tenant):
        async with transaction(request) as connection:
            left = await published.remove(connection, found)
        mirror.delete_objects(found.tenant, left)
    return {"id": target.id}


@router.post(
    "/api/validate-yaml",
    summary="Check a card",
    responses=HUB_ERRORS.described({413: "The card is too large."}),
)
async def validate_yaml(request: Request, _who: Who) -> dict[str, list[str]]:
    """Cards are not checked; clients ask before they publish one."""
    audit.skip(request)
    await _body(request)
    return {"errors": [], "warnings": []}


@router.put("/api/models/{path:path}", include_in_schema=False)
@router.put("/api/datasets/{path:path}", include_in_schema=False)
async def set_visibility(request: Request, mirror: TheMirror, who: Who, asked: Visibility) -> Response:
    """Changes who reads a repository."""
    target, rest = api_target(request)
    describe(request, Change("repositories.settings", f"{target.kind}/{target.id}", target.namespace))
    if rest != ["settings"]:
        raise refusal(404, "there is nothing at this path")
    found = await _writable(mirror, who, target)
    private = asked.visibility == "private" if asked.visibility is not None else asked.private
    if private is None:
        raise refusal(400, "the settings name no visibility: this hub has no other")
    async with transaction(request) as connection:
        await published.set_private(connection, found.number, private=private)
    return json_response({"private": private})


@router.post("/api/models/{path:path}", include_in_schema=False)
@router.post("/api/datasets/{path:path}", include_in_schema=False)
async def write(request: Request, mirror: TheMirror, who: Who) -> Response:
    """What paths are, how files are to be uploaded, or a commit."""
    target, rest = api_target(request)
    word, *more = rest or [""]
    if word not in ("paths-info", "preupload", "commit"):
        raise refusal(404, "there is nothing at this path")
    revision, more = take_revision(more)
    if more:
        raise refusal(404, "there is nothing at this path")
    if word == "paths-info":
        return await paths_info(request, mirror, who, target, revision)
    describe(request, Change("repositories.commit", f"{target.kind}/{target.id}", target.namespace))
    if word == "preupload":
        audit.skip(request)
    found = await _writable(mirror, who, target)
    if revision != MAIN or request.query_params.get("create_pr"):
        raise refusal(400, f"repositories of this hub have one branch, {MAIN}, and no pull requests: commit to it")
    if word == "preupload":
        return await _preupload(request)
    return await _commit(request, mirror, who, found)


@router.post("/{path:path}.git/info/lfs/objects/batch", include_in_schema=False)
async def batch(request: Request, mirror: TheMirror, who: Who) -> Response:
    """Links for uploads of large files, of git LFS."""
    audit.skip(request)
    parts = segments(request.scope["raw_path"])[:-4]
    kind: Kind = "datasets" if parts[0] == "datasets" else "models"
    parts = [*parts[1 if kind == "datasets" else 0 : -1], parts[-1].removesuffix(".git")]
    found = await _writable(mirror, who, repository(kind, parts))
    asked = await _json(request)
    if asked.get("operation") != "upload":
        raise refusal(400, "this hub has LFS for uploads alone: download files by /resolve/")
    sizes = _objects(asked.get("objects"))
    async with mirror.engine.connect() as connection:
        known = await published.present(connection, found.number, list(sizes))
        used = await published.usage(connection, found.tenant)
    shown: list[dict[str, Any]] = []
    for oid, size in sizes.items():
        entry: dict[str, Any] = {"oid": oid, "size": size}
        if oid not in known:
            used += size
            if used > mirror.settings.tenant_bytes:
                entry["error"] = {"code": 413, "message": str(getattr(uploads.over_limit(mirror, found), "detail", ""))}
            else:
                entry["actions"] = {"upload": {"href": _link(mirror, who, found, oid, size), "header": {}}}
        shown.append(entry)
    response = json_response({"transfer": "basic", "objects": shown, "hash_algo": "sha256"})
    response.headers["Content-Type"] = LFS
    return response


Number = Annotated[int, Path(ge=1, lt=2**63)]
Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


@links_router.put("/uploads/{number}/{sha256}", include_in_schema=False)
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
    """A large file, at a link that was made for it."""
    describe(request, Change("objects.upload", f"objects/{sha256}", username=author))
    expected = mirror.sign(number, sha256, size, until, author)
    if not hmac.compare_digest(signature.encode(), expected.encode()) or until < time.time():
        raise refusal(403, "the link of this upload has expired, or is none of this hub: request another")
    async with mirror.engine.connect() as connection:
        found = await published.numbered(connection, number)
    if found is None:
        raise refusal(404, "the repository of this upload was deleted")
    describe(request, Change("objects.upload", f"{found.repository.kind}/{found.repository.id}", found.tenant, author))
    await uploads.store_stream(mirror, found, request.stream(), sha256, size)
    return Response(status_code=200)


def _link(mirror: Mirror, who: Reader, found: Published, oid: str, size: int) -> str:
    """For one upload: huggingface_hub sends no token to it."""
    until, author = int(time.time()) + LINK_SECONDS, _username(who)
    signature = mirror.sign(found.number, oid, size, until, author)
    query = urlencode({"size": size, "until": until, "author": author, "signature": signature})
    return f"{who.base_url}/uploads/{found.number}/{oid}?{query}"


def _username(who: Reader) -> str:
    return who.caller.username if who.caller else ""


def _named(mirror: Mirror, who: Reader, named: NamedRepository) -> Repository:
    """The repository of a body; without a tenant, of the caller's only one."""
    _check_token(who)
    tenant, _, name = named.name.rpartition("/")
    tenant = named.organization or tenant
    if not tenant:
        mine = [one for one in who.tenants if one in mirror.settings.tenants]
        if len(mine) != 1:
            shown = ", ".join(mine) or "none"
            raise refusal(403, f"name the tenant of the repository, tenant/{name}: yours are {shown}")
        tenant = mine[0]
    return repository(KINDS_BY_TYPE[named.type or "model"], [tenant, name])


def _check_token(who: Reader) -> None:
    if who.caller is None:
        headers = {"WWW-Authenticate": 'Bearer realm="hub-mirror"', MESSAGE: INVALID_CREDENTIALS}
        raise refusal(401, "publishing needs a token of the site: Authorization: Bearer …", headers=headers)


def _check_member(mirror: Mirror, who: Reader, target: Repository) -> None:
    _check_token(who)
    if not mirror.is_tenants(target) or target.namespace not in who.tenants:
        mine = ", ".join(one for one in who.tenants if one in mirror.settings.tenants) or "none"
        raise refusal(403, f"you are no member of a tenant {target.namespace or target.id}: yours are {mine}")


async def _writable(mirror: Mirror, who: Reader, target: Repository) -> Published:
    """A repository that the caller may write.

    Raises:
        HTTPException: 401 without a token of the site, 403 for one of another tenant, 404.
    """
    _check_token(who)
    if not mirror.is_tenants(target):
        raise refusal(403, f"{target.id} is a repository of the Hub: publish below the name of your tenant")
    found = await find_published(mirror, who, target)
    _check_member(mirror, who, target)
    return found


async def _body(request: Request) -> bytes:
    return await request.body()


async def _json(request: Request) -> dict[str, Any]:
    return _object(await _body(request))


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(400, "the body is no JSON") from error
    if not isinstance(value, dict):
        raise refusal(400, "the body is no object of JSON")
    return value


def _objects(value: Any) -> dict[str, int]:
    if not isinstance(value, list) or len(value) > MOST_OBJECTS:
        raise refusal(400, f"objects must be a list of at most {MOST_OBJECTS}")
    found: dict[str, int] = {}
    for one in value:
        oid, size = (one.get("oid"), one.get("size")) if isinstance(one, dict) else (None, None)
        if not isinstance(oid, str) or not isinstance(size, int) or not _is_hash(oid) or not _is_size(size):
            raise refusal(400, "an object has no SHA-256 as oid, or no size")
        found[oid] = size
    return found


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**50


async def _preupload(request: Request) -> Response:
    """Small files come inside of the commit, others by git LFS."""
    asked = (await _json(request)).get("files")
    if not isinstance(asked, list) or len(asked) > MOST_OBJECTS:
        raise refusal(400, f"files must be a list of at most {MOST_OBJECTS}")
    shown = []
    for one in asked:
        path, size = (one.get("path"), one.get("size")) if isinstance(one, dict) else (None, None)
        if not isinstance(path, str) or not _is_size(size):
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
                yield _object(line)
        if len(rest) > LONGEST_LINE:
            raise refusal(413, f"a file inside of a commit may have {REGULAR_BYTES} bytes: upload it by LFS")
    if rest.strip():
        yield _object(bytes(rest))


class _Header(BaseModel):
    model_config = ConfigDict(extra="ignore")

    summary: Annotated[str, Field(max_length=1000)] = ""
    description: Annotated[str, Field(max_length=65_536)] = ""
    parentCommit: Annotated[str | None, Field(max_length=40)] = None  # the Hub's name


async def _commit(request: Request, mirror: Mirror, who: Reader, found: Published) -> Response:
    """All operations, or none."""
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
            added[path] = await uploads.store_text(mirror, found, value["content"])
        elif key == "lfsFile":
            added[path] = await _uploaded(mirror, found, path, value)
        elif key in ("deletedFile", "deletedFolder"):
            deleted.append(path if key == "deletedFile" else f"{path}/")
        else:
            raise refusal(400, f"this hub cannot do {str(key)[:50]!r} in a commit: add and delete files")
        if len(added) > MOST_FILES:
            raise _too_many()
    sha = await _add(request, who, found, header, added, deleted)
    url = f"{who.base_url}{found.repository.web_path}/commit/{sha}"
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


async def _uploaded(mirror: Mirror, found: Published, path: str, value: dict[str, Any]) -> File:
    oid, size = value.get("oid"), value.get("size")
    if value.get("algo", "sha256") != "sha256" or not _is_hash(oid) or not isinstance(oid, str):
        raise refusal(400, f"file {path} has no SHA-256 as oid")
    async with mirror.engine.connect() as connection:
        known = await published.present(connection, found.number, [oid])
    if oid not in known or (size is not None and size != known[oid]):
        raise refusal(400, f"file {path}: its bytes were not uploaded to this repository, or have another size")
    return File(oid, known[oid], uploads.pointer_oid(oid, known[oid]), large=True)


async def _add(  # the parts of one commit
    request: Request, who: Reader, found: Published, header: _Header, added: dict[str, File], deleted: list[str]
) -> str:
    async with transaction(request) as connection:
        locked = await published.find(connection, found.repository, lock=True)
        if locked is None or locked.number != found.number:
            raise repository_not_found(found.repository.id, anonymous=False)
        if header.parentCommit not in (None, locked.head):
            raise refusal(412, f"{MAIN} is at commit {locked.head}, not at {header.parentCommit}: read it again")
        last = await published.commit_of(connection, locked, MAIN)
        files = dict(last.files) if last is not None else {}
        for path in deleted:
            gone = [one for one in files if one == path or (path.endswith("/") and one.startswith(path))]
            for one in gone:
                del files[one]
        files |= added
        folders = {one[:index] for one in files for index, letter in enumerate(one) if letter == "/"}
        if both := folders & files.keys():
            raise refusal(400, f"{min(both)} would be a file and a folder")
        if len(files) > MOST_FILES:
            raise _too_many()
        title = header.summary or "commit"
        return await published.add_commit(connection, locked, files, title, header.description, _username(who))
