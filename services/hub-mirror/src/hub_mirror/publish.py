"""Routes of the Hub's API that write: members of a tenant publish below the tenant's name."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from hub_mirror import commits, published
from hub_mirror.cards import api_target, paths_info
from hub_mirror.mirror import Mirror, TheMirror
from hub_mirror.names import MAIN, Kind, Repository, repository, take_revision
from hub_mirror.readers import Reader, Who
from hub_mirror.refusals import HUB_ERRORS, refusal
from hub_mirror.responses import json_response
from hub_mirror.writers import check_member, check_token, own_tenants, username, writable
from strata_http import audit
from strata_http.audit import Change, describe
from strata_http.database import transaction
from strata_http.values import Text

KINDS_BY_TYPE: dict[str, Kind] = {"model": "models", "dataset": "datasets"}

router = APIRouter(tags=["publishing"])


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
    responses=HUB_ERRORS.described({403: "The caller is not a member of the tenant.", 409: "The name is taken."}),
)
async def create(request: Request, mirror: TheMirror, who: Who, new: NewRepository) -> Response:
    """Members of the tenant write to it; all of the site read it, unless it is private."""
    describe(request, Change("repositories.create"))
    target = _named(mirror, who, new)
    describe(request, Change("repositories.create", f"{target.kind}/{target.id}", target.namespace))
    check_member(mirror, who, target)
    private = new.visibility == "private" or bool(new.private)
    async with transaction(request) as connection:
        record = await published.create(connection, target, username(who), private=private)
    created = Created(url=f"{who.base_url}{target.web_path}", name=target.id, id=target.id)
    if record is None:
        # with its URL, which clients read that do not mind
        error = {"error": f"there is a repository {target.id} already", "request_id": request.state.request_id}
        return JSONResponse(created.model_dump() | error, 409)
    return JSONResponse(created.model_dump())


@router.delete(
    "/api/repos/delete",
    summary="Delete a repository of a tenant",
    responses=HUB_ERRORS.described(
        {403: "The caller is not a member of the tenant.", 404: "There is no such repository."}
    ),
)
async def delete(request: Request, mirror: TheMirror, who: Who, named: NamedRepository) -> dict[str, str]:
    """With all of its commits and files."""
    describe(request, Change("repositories.delete"))
    target = _named(mirror, who, named)
    describe(request, Change("repositories.delete", f"{target.kind}/{target.id}", target.namespace))
    record = await writable(mirror, who, target)
    async with mirror.tenant_lock(record.tenant):
        async with transaction(request) as connection:
            left = await published.remove(connection, record)
        mirror.delete_objects(record.tenant, left)
    return {"id": target.id}


@router.post(
    "/api/validate-yaml",
    summary="Check a card",
    responses=HUB_ERRORS.described({413: "The card is too large."}),
)
async def validate_yaml(request: Request) -> dict[str, list[str]]:
    """Cards are not checked. Clients ask before they publish one, without their token."""
    audit.skip(request)
    return {"errors": [], "warnings": []}


@router.put("/api/models/{path:path}", include_in_schema=False)
@router.put("/api/datasets/{path:path}", include_in_schema=False)
async def set_visibility(request: Request, mirror: TheMirror, who: Who, asked: Visibility) -> Response:
    """Changes who reads a repository."""
    target, rest = api_target(request)
    describe(request, Change("repositories.settings", f"{target.kind}/{target.id}", target.namespace))
    if rest != ["settings"]:
        raise refusal(404, "there is nothing at this path")
    record = await writable(mirror, who, target)
    private = asked.visibility == "private" if asked.visibility is not None else asked.private
    if private is None:
        raise refusal(400, "the settings name no visibility: this hub has no other")
    async with transaction(request) as connection:
        await published.set_private(connection, record.number, private=private)
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
    record = await writable(mirror, who, target)
    if revision != MAIN or request.query_params.get("create_pr"):
        raise refusal(400, f"repositories of this hub have one branch, {MAIN}, and no pull requests: commit to it")
    if word == "preupload":
        return await commits.preupload(request)
    return await commits.add_commit(request, mirror, who, record)


def _named(mirror: Mirror, who: Reader, named: NamedRepository) -> Repository:
    """The repository of a body; without a tenant, of the caller's only one."""
    check_token(who)
    tenant, _, name = named.name.rpartition("/")
    tenant = named.organization or tenant
    if not tenant:
        mine = own_tenants(mirror, who)
        if len(mine) != 1:
            shown = ", ".join(mine) or "none"
            raise refusal(403, f"name the tenant of the repository, tenant/{name}: yours are {shown}")
        tenant = mine[0]
    return repository(KINDS_BY_TYPE[named.type or "model"], [tenant, name])
