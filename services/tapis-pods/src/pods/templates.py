"""Templates: a pod takes what it does not set itself from a tag of one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import HTTPException
from pydantic import ValidationError
from sqlalchemy import RowMapping, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from pods import tables
from pods.access import Level, Shared
from pods.settings import Settings, SiteTemplate
from pods.spec import NewPod, PodDefinition, stored
from pods.tables import template_tags
from strata_http.tokens import Caller

TEMPLATES = Shared("template", tables.templates, tables.template_permissions)
LATEST = "latest"
MERGED = ("environment_variables", "networking", "resources", "volume_mounts")
"""Fields whose entries a pod and its template set one by one."""
_REFERENCE = re.compile(
    r"(?P<name>[a-z][a-z0-9_-]*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]*)(?:@(?P<time>[0-9a-f.:-]+))?)?"
)


@dataclass(frozen=True)
class Tag:
    """One state of a template, which never changes.

    Args:
        template_id: of the template.
        tag: its name; several states have it, the newest counts.
        timestamp: when it was added; of a template of the site, a hash.
        pod_definition: fields of PodDefinition that it sets.
        commit_message: what was changed.
        added_by: whoever added it; empty for the site.
        creation_ts: None for the site.
    """

    template_id: str
    tag: str
    timestamp: str
    pod_definition: Mapping[str, Any]
    commit_message: str = ""
    added_by: str = ""
    creation_ts: datetime | None = None

    @property
    def tag_timestamp(self) -> str:
        """In Tapis' form."""
        return f"{self.tag}@{self.timestamp}"

    @property
    def reference(self) -> str:
        """By which a pod names it."""
        return f"{self.template_id}:{self.tag_timestamp}"


def site_tag(template: SiteTemplate) -> Tag:
    """The only tag of a template of the site."""
    return Tag(template.name, LATEST, template.digest, stored(template.pod_definition))


def refuse_site_template(settings: Settings, name: str) -> None:
    """Refuses a change of a template that site.yaml sets.

    Raises:
        HTTPException: 403.
    """
    if name in settings.templates:
        raise HTTPException(403, f"template {name} is the site's, and can be changed in site.yaml only")


async def list_tags(
    connection: AsyncConnection, template_ids: Sequence[str], tag: str = "", timestamp: str = ""
) -> list[Tag]:
    """The newest first; all, those of one name, or one."""
    query = select(*template_tags.columns).where(template_tags.c.template_id.in_(template_ids))
    if tag:
        query = query.where(template_tags.c.tag == tag)
    if timestamp:
        query = query.where(template_tags.c.timestamp == timestamp)
    rows = (await connection.execute(query.order_by(template_tags.c.number.desc()))).mappings()
    return [Tag(**{name: row[name] for name in Tag.__dataclass_fields__}) for row in rows]


async def find_tags(
    connection: AsyncConnection, caller: Caller, settings: Settings, name: str, tag: str = "", timestamp: str = ""
) -> list[Tag]:
    """The tags of a template that the caller may see, newest first.

    Raises:
        HTTPException: 404 where there is no such template or tag, or no permission for it.
    """
    if (site := settings.templates.get(name)) is not None:
        tags = [
            candidate
            for candidate in (site_tag(site),)
            if tag in ("", candidate.tag) and timestamp in ("", candidate.timestamp)
        ]
    else:
        await TEMPLATES.find(connection, caller, name, "READ")
        tags = await list_tags(connection, [name], tag, timestamp)
    if tag and not tags:
        raise HTTPException(404, f"template {name} has no tag {tag}{f'@{timestamp}' if timestamp else ''}")
    return tags


async def find_reference(connection: AsyncConnection, caller: Caller, settings: Settings, reference: str) -> Tag:
    """What a pod or a template names.

    Raises:
        HTTPException: 400 where it is not a reference, or there is no such template or tag for the caller.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise HTTPException(400, f"template: {reference[:200]} is not a template: name, name:tag or name:tag@timestamp")
    try:
        tags = await find_tags(connection, caller, settings, match["name"], match["tag"] or LATEST, match["time"] or "")
    except HTTPException as error:
        raise HTTPException(400, f"template: {error.detail}") from None
    return tags[0]


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a template under those that are set for it."""
    result = {**base, **own}
    for key in MERGED:
        if key in base and key in own:
            result[key] = {**base[key], **own[key]}
    return result


def apply_template(tag: Tag, own: Mapping[str, Any], **fields: Any) -> NewPod:
    """A pod of a template.

    Args:
        tag: of the template.
        own: fields of PodSpec that the pod sets itself.
        fields: others of NewPod.

    Raises:
        HTTPException: 400 where both together cannot be.
    """
    kept = {key: value for key, value in own.items() if key != "template" and not (key == "image" and not value)}
    content = {**merged(tag.pod_definition, kept), **fields, "template": tag.reference}
    try:
        made = NewPod.model_validate(content)
    except ValidationError as error:
        raise HTTPException(400, f"template {tag.reference}: {_first(error)}") from None
    if not made.image:
        raise HTTPException(400, f"template {tag.reference} names no image: set image")
    return made


async def with_template(connection: AsyncConnection, caller: Caller, settings: Settings, given: NewPod) -> NewPod:
    """A new pod with what its template sets.

    Raises:
        HTTPException: 400.
    """
    if not given.template:
        return given
    tag = await find_reference(connection, caller, settings, given.template)
    fields = {"pod_id", "compute_queue", "status_requested"}
    return apply_template(tag, stored(given), **given.model_dump(mode="json", include=fields, exclude_unset=True))


async def newest(connection: AsyncConnection, caller: Caller, settings: Settings, pod: RowMapping) -> NewPod:
    """A pod with the newest state of its template's tag.

    Raises:
        HTTPException: 400 where it is of no template, or that is gone.
    """
    pinned = pod["spec"].get("template", "")
    if not pinned:
        raise HTTPException(400, f"pod {pod['pod_id']} was made without a template; leave grab_latest_template_tag out")
    tag = await find_reference(connection, caller, settings, pinned.partition("@")[0])
    return apply_template(tag, pod["overrides"], pod_id=pod["pod_id"], compute_queue=pod["tenant"])


async def complete(
    connection: AsyncConnection, caller: Caller, settings: Settings, given: PodDefinition
) -> dict[str, Any]:
    """A definition with what the template that it adds to sets.

    Raises:
        HTTPException: 400; for a third level too.
    """
    own = stored(given)
    if not given.template:
        return own
    base = await find_reference(connection, caller, settings, given.template)
    if base.pod_definition.get("template"):
        raise HTTPException(
            400, f"pod_definition.template: {base.reference} adds to another template; name one that does not"
        )
    try:
        return stored(PodDefinition.model_validate({**merged(base.pod_definition, own), "template": base.reference}))
    except ValidationError as error:
        raise HTTPException(400, f"template {base.reference}: {_first(error)}") from None


async def create(
    connection: AsyncConnection, settings: Settings, name: str, tenant: str, owner: str, **columns: Any
) -> None:
    """A new template with its first ADMIN.

    Raises:
        HTTPException: 409 where the name is in use.
    """
    if name in settings.templates or not await TEMPLATES.add(connection, name, owner, {"tenant": tenant, **columns}):
        raise HTTPException(409, f"template_id: {name} is in use; choose another name")


async def exists(connection: AsyncConnection, settings: Settings, name: str) -> bool:
    """Whether a name is in use, whoever may see it."""
    query = select(tables.templates.c.template_id).where(tables.templates.c.template_id == name)
    return name in settings.templates or (await connection.execute(query)).scalar_one_or_none() is not None


async def add_tag(
    connection: AsyncConnection, caller: Caller, name: str, tag: str, definition: Mapping[str, Any], message: str
) -> Tag:
    """A new state of a template, whose row must be locked or new."""
    now = datetime.now(UTC)
    added = Tag(name, tag, f"{now:%Y-%m-%d-%H:%M:%S.%f}", dict(definition), message, caller.username, now)
    values = {field: getattr(added, field) for field in Tag.__dataclass_fields__}
    await connection.execute(insert(template_tags).values(values))
    return added


async def find_writable(
    connection: AsyncConnection, caller: Caller, settings: Settings, name: str, level: Level
) -> RowMapping:
    """A template that the caller changes, locked.

    Raises:
        HTTPException: 403, 404.
    """
    refuse_site_template(settings, name)
    return await TEMPLATES.find(connection, caller, name, level, change=True)


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])
