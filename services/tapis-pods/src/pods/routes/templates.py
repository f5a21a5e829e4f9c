"""Templates and their tags."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import delete, func, update

from pods import store, tables, templates
from pods.access import PODS, Person
from pods.routes.permissions import Sharing, permission_routes
from pods.routes.pods import IN_USE, MISSING, PodName, choose_tenant, settings_of
from pods.routes.shapes import PodResult, pod_result
from pods.settings import SiteTemplate
from pods.spec import DEFAULT, PodDefinition, PodSpec, stored
from pods.templates import TEMPLATES, Tag
from pods.values import TagName, TemplateId, Text
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import Envelope, success

PREFIX = "/pods/templates"
router = APIRouter(prefix="/pods", tags=["templates"])
permissions = permission_routes(Sharing(TEMPLATES, PREFIX))
TemplateName = Annotated[Text, Path(min_length=1, max_length=64, description="Name of the template.")]
TagPath = Annotated[Text, Path(min_length=1, max_length=200, description="tag or tag@timestamp")]
Full = Annotated[bool, Query(description="Show pod_definition of each tag.")]
Short = Annotated[Text, Field(max_length=254)]


class UpdateTemplate(BaseModel):
    """Body of PUT; fields that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    description: Short = ""
    metatags: Annotated[list[Short], Field(max_length=50)] = Field(default_factory=list)
    archive_message: Short = Field(default="", description="For whoever uses the template.")


class NewTemplate(UpdateTemplate):
    """Body of POST."""

    template_id: TemplateId = Field(description="Name, unique at the site.")
    compute_queue: Text = Field(default=DEFAULT, description="Tenant whose template it is; default: your only one.")


class NewTag(BaseModel):
    """Body of POST."""

    model_config = ConfigDict(extra="forbid")

    pod_definition: PodDefinition
    commit_message: Short
    tag: TagName = templates.LATEST


class SavePod(BaseModel):
    """Body of POST."""

    model_config = ConfigDict(extra="forbid")

    template_id: TemplateId = Field(description="Template that gets the tag; a new name makes one in the pod's tenant.")
    commit_message: Short
    tag: TagName = templates.LATEST


class TemplateResult(BaseModel):
    """A template."""

    model_config = ConfigDict(from_attributes=True)

    template_id: str
    tenant: str = Field(description="Whose it is; empty: the site's.")
    description: str = ""
    metatags: list[str] = Field(default_factory=list)
    archive_message: str = ""
    creation_ts: datetime | None = None
    update_ts: datetime | None = None


class TagResult(BaseModel):
    """A state of a template."""

    model_config = ConfigDict(from_attributes=True)

    template_id: str
    tag: str
    tag_timestamp: str
    pod_definition: dict[str, Any] | None = Field(description="null unless full.")
    commit_message: str
    added_by: str
    creation_ts: datetime | None


def _site(template: SiteTemplate) -> TemplateResult:
    return TemplateResult(template_id=template.name, tenant="", description=template.description)


def _tag_result(tag: Tag, *, full: bool = True) -> TagResult:
    result = TagResult.model_validate(tag)
    return result if full else result.model_copy(update={"pod_definition": None})


@router.get("/templates", operation_id="list_templates", summary="Templates that you may use")
async def list_templates(request: Request, caller: Person, connection: Connection) -> Envelope[list[TemplateResult]]:
    """The site's, then those that you have a permission for."""
    site = settings_of(request).templates
    rows = (await connection.execute(TEMPLATES.visible(caller))).mappings()
    results = [_site(template) for _, template in sorted(site.items())]
    results += [TemplateResult.model_validate(dict(row)) for row in rows if row["template_id"] not in site]
    return success(request, "Templates retrieved successfully.", results, count=len(results))


@router.post("/templates", operation_id="add_template", summary="Create a template", responses=IN_USE)
async def add_template(
    request: Request, caller: Person, given: NewTemplate, connection: Transaction
) -> Envelope[TemplateResult]:
    """You get ADMIN; it has no tags yet."""
    settings = settings_of(request)
    tenant = choose_tenant(settings, caller, given.compute_queue).name
    describe(request, Change("templates.create", f"templates/{given.template_id}", tenant))
    columns = given.model_dump(exclude={"template_id", "compute_queue"})
    await templates.create(connection, settings, given.template_id, tenant, caller.username, **columns)
    row = await TEMPLATES.find(connection, caller, given.template_id, "READ")
    return success(request, "Template added successfully.", TemplateResult.model_validate(dict(row)))


@router.get("/templates/tags", operation_id="list_templates_and_tags", summary="Tags of all templates")
async def list_templates_and_tags(
    request: Request, caller: Person, connection: Connection, full: Full = True
) -> Envelope[dict[str, list[TagResult]]]:
    """By template, the newest first."""
    settings = settings_of(request)
    site_tags = {name: [templates.site_tag(template)] for name, template in sorted(settings.templates.items())}
    rows = (await connection.execute(TEMPLATES.visible(caller))).mappings()
    own: dict[str, list[Tag]] = {row["template_id"]: [] for row in rows if row["template_id"] not in site_tags}
    for tag in await templates.list_tags(connection, list(own)):
        own[tag.template_id].append(tag)
    result = {name: [_tag_result(tag, full=full) for tag in tags] for name, tags in (site_tags | own).items()}
    return success(request, "Templates and tags retrieved successfully.", result)


@router.get("/templates/{template_id}", operation_id="get_template", summary="A template", responses=MISSING)
async def get_template(
    request: Request, caller: Person, template_id: TemplateName, connection: Connection
) -> Envelope[TemplateResult]:
    """Needs READ, unless it is the site's."""
    if (site := settings_of(request).templates.get(template_id)) is not None:
        return success(request, "Template retrieved successfully.", _site(site))
    row = await TEMPLATES.find(connection, caller, template_id, "READ")
    return success(request, "Template retrieved successfully.", TemplateResult.model_validate(dict(row)))


@router.put("/templates/{template_id}", operation_id="update_template", summary="Change a template", responses=MISSING)
async def update_template(
    request: Request, caller: Person, template_id: TemplateName, given: UpdateTemplate, connection: Transaction
) -> Envelope[TemplateResult]:
    """Needs USER."""
    template = await templates.find_writable(connection, caller, settings_of(request), template_id, "USER")
    describe(request, Change("templates.update", f"templates/{template_id}", template["tenant"]))
    if sent := given.model_dump(exclude_unset=True):
        own = tables.templates.c.template_id == template_id
        await connection.execute(update(tables.templates).where(own).values({**sent, "update_ts": func.now()}))
    row = await TEMPLATES.find(connection, caller, template_id, "READ")
    return success(request, "Template updated successfully.", TemplateResult.model_validate(dict(row)))


@router.delete(
    "/templates/{template_id}", operation_id="delete_template", summary="Delete a template", responses=MISSING
)
async def delete_template(
    request: Request, caller: Person, template_id: TemplateName, connection: Transaction
) -> Envelope[str]:
    """Needs ADMIN; pods that were made of it stay as they are."""
    template = await templates.find_writable(connection, caller, settings_of(request), template_id, "ADMIN")
    describe(request, Change("templates.delete", f"templates/{template_id}", template["tenant"]))
    await connection.execute(delete(tables.templates).where(tables.templates.c.template_id == template_id))
    return success(request, "Template deleted successfully.", "")


@router.get(
    "/templates/{template_id}/tags", operation_id="list_template_tags", summary="Tags of a template", responses=MISSING
)
async def list_template_tags(
    request: Request, caller: Person, template_id: TemplateName, connection: Connection, full: Full = True
) -> Envelope[list[TagResult]]:
    """Needs READ, unless it is the site's; the newest first."""
    tags = await templates.find_tags(connection, caller, settings_of(request), template_id)
    return success(request, "Template tags retrieved successfully.", [_tag_result(tag, full=full) for tag in tags])


@router.post("/templates/{template_id}/tags", operation_id="add_template_tag", summary="Add a tag", responses=MISSING)
async def add_template_tag(
    request: Request, caller: Person, template_id: TemplateName, given: NewTag, connection: Transaction
) -> Envelope[TagResult]:
    """Needs USER; the newest state of a tag counts, and pods keep that which they were made of."""
    settings = settings_of(request)
    template = await templates.find_writable(connection, caller, settings, template_id, "USER")
    describe(request, Change("templates.tags.add", f"templates/{template_id}", template["tenant"]))
    definition = await templates.complete(connection, caller, settings, given.pod_definition)
    tag = await templates.add_tag(connection, caller, template_id, given.tag, definition, given.commit_message)
    return success(request, "Template tag added successfully.", _tag_result(tag))


@router.get(
    "/templates/{template_id}/tags/{tag_id}",
    operation_id="get_template_tag",
    summary="States of a tag",
    responses=MISSING,
)
async def get_template_tag(
    request: Request, caller: Person, template_id: TemplateName, tag_id: TagPath, connection: Connection
) -> Envelope[list[TagResult]]:
    """Needs READ, unless it is the site's; the newest first, or that of tag@timestamp alone."""
    tag, _, timestamp = tag_id.partition("@")
    tags = await templates.find_tags(connection, caller, settings_of(request), template_id, tag or "@", timestamp)
    return success(request, "Template tag retrieved successfully.", [_tag_result(entry) for entry in tags])


@router.get("/{pod_id}/derived", operation_id="get_derived_pod", summary="A pod's definition", responses=MISSING)
async def get_derived_pod(
    request: Request, caller: Person, pod_id: PodName, connection: Connection
) -> Envelope[PodResult]:
    """Needs READ; the same as the pod, which always shows what its template has set."""
    row = await PODS.find(connection, caller, pod_id, "READ")
    return success(request, "Pod derived successfully.", pod_result(row, settings_of(request).domain))


@router.post(
    "/{pod_id}/save_pod_as_template_tag",
    operation_id="save_pod_as_template_tag",
    summary="Add a pod's definition to a template",
    responses=MISSING | IN_USE,
)
async def save_pod_as_template_tag(
    request: Request, caller: Person, pod_id: PodName, given: SavePod, connection: Transaction
) -> Envelope[TagResult]:
    """Needs USER of both; a template that is not there is created in the pod's tenant."""
    settings, name = settings_of(request), given.template_id
    pod = await PODS.find(connection, caller, pod_id, "USER", change=True)
    describe(request, Change("templates.tags.add", f"templates/{name}", pod["tenant"]))
    if await templates.exists(connection, settings, name):
        await templates.find_writable(connection, caller, settings, name, "USER")
    else:
        await templates.create(connection, settings, name, pod["tenant"], caller.username)
    # complete without the template that the pod was made of
    spec = PodSpec.model_validate(pod["spec"]).model_dump(mode="json", exclude={"template", "time_to_stop_instance"})
    definition = stored(PodDefinition.model_validate(spec))
    tag = await templates.add_tag(connection, caller, name, given.tag, definition, given.commit_message)
    await store.act(connection, pod_id, f"{caller.username} saved it as {tag.reference}")
    return success(request, "Pod saved as template tag successfully.", _tag_result(tag))
