"""The pages that create a pod from a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import Response
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.routes.pods import create_pod, settings_of
from pods.routes.templates import list_templates
from pods.settings import Settings, Tenant
from pods.templates import LATEST, Tag, find_reference, list_tags, site_tag
from pods.web.attempts import Refusal, attempt
from pods.web.pod_form import Fields, FormError, PodForm, first_values, in_words
from strata_http.database import Connection, Transaction
from strata_http.tokens import Caller
from strata_http.web.guards import Visitor
from strata_http.web.responses import go_to, render

router = APIRouter()


@dataclass(frozen=True)
class Card:
    """A template that the visitor may use.

    Args:
        reference: by which the API knows it.
        name: of the template.
        description: of the template.
        image: that its pods run.
        notice: of whoever archived it.
    """

    reference: str
    name: str
    description: str
    image: str
    notice: str


def own_tenants(settings: Settings, caller: Caller) -> list[Tenant]:
    """Tenants in which the caller may create pods."""
    return [settings.tenants[name] for name in caller.tenants if name in settings.tenants]


@router.get("/new")
async def show_templates(request: Request, visitor: Visitor, connection: Connection) -> Response:
    """Templates to choose from."""
    settings = settings_of(request)
    templates = (await list_templates(request, visitor, connection)).result
    tags = {name: site_tag(template) for name, template in settings.templates.items()}
    # the newest first, but LATEST before all others
    own = await list_tags(connection, [template.template_id for template in templates])
    for entry in sorted(own, key=lambda tag: tag.tag != LATEST):
        tags.setdefault(entry.template_id, entry)
    cards = [
        Card(
            template.template_id if tag.tag == LATEST else f"{template.template_id}:{tag.tag}",
            template.template_id,
            template.description,
            str(tag.pod_definition.get("image", "")),
            template.archive_message,
        )
        for template in templates
        if (tag := tags.get(template.template_id)) is not None
    ]
    return render(request, "templates.html", cards=cards, tenants=own_tenants(settings, visitor))


@router.get("/new/{template}")
async def show_form(request: Request, visitor: Visitor, template: str, connection: Connection) -> Response:
    """The form, with what the template sets."""
    settings = settings_of(request)
    tag = await _chosen(connection, visitor, settings, template)
    return _form(request, visitor, template, tag, first_values(tag, own_tenants(settings, visitor)))


@router.post("/new/{template}")
async def create(
    request: Request, visitor: Visitor, template: str, sent: Annotated[Fields, Form()], connection: Transaction
) -> Response:
    """Creates the pod as the API does, or shows the form again."""
    tag = await _chosen(connection, visitor, settings_of(request), template)
    try:
        given = PodForm(template, tag).pod(sent)
    except FormError as error:
        return _form(request, visitor, template, tag, sent, Refusal(400, error.messages))
    refusal = await attempt(connection, create_pod(request, visitor, given, connection))
    if refusal is not None:
        return _form(request, visitor, template, tag, sent, refusal)
    return go_to(f"/pods/{given.pod_id}")


async def _chosen(connection: AsyncConnection, caller: Caller, settings: Settings, template: str) -> Tag:
    """The state of a template that the API would use.

    Raises:
        HTTPException: 404 where there is none for the caller.
    """
    try:
        return await find_reference(connection, caller, settings, template)
    except HTTPException as error:
        raise HTTPException(404, error.detail) from None


def _form(
    request: Request, caller: Caller, template: str, tag: Tag, values: Fields, refusal: Refusal | None = None
) -> Response:
    tenants = own_tenants(settings_of(request), caller)
    shown: dict[str, Any] = {
        "reference": template,
        "form": PodForm(template, tag),
        "values": values,
        "tenants": tenants,
        "most_gpus": max((tenant.gpus.maximum for tenant in tenants if tenant.gpus), default=0),
        "messages": [in_words(message) for message in refusal.messages] if refusal else (),
    }
    return render(request, "new.html", refusal.status if refusal else 200, **shown)
