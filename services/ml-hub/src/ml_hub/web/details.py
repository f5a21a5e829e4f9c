"""The page of one model or dataset: its card, its files, and how to use it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from ml_hub.hub import Kind
from ml_hub.repositories import is_repository
from ml_hub.repository import SINGULAR, Repository, find, hub_of, read_hub
from ml_hub.routes.content import read_card
from ml_hub.routes.inference import may_ask
from ml_hub.routes.lists import InPath
from ml_hub.settings import Settings
from ml_hub.web.asking import LONGEST_PROMPT, UNKNOWN, Conversation, State, ask, read_states, takes_prompts
from ml_hub.web.markdown import card_html
from ml_hub.web.usage import Links, asking, loading
from strata_http import audit
from strata_http.web.guards import Visitor, VisitorToken
from strata_http.web.responses import render

router = APIRouter()
MOST_FILES = 500
"""That a page lists."""


@dataclass(frozen=True)
class File:
    """A file of a repository.

    Args:
        name: with its folders.
        size: in bytes; None: unknown.
    """

    name: str
    size: int | None


@dataclass(frozen=True)
class Serving:
    """A model that the site serves for the visitor.

    Args:
        state: now.
        conversation: what the visitor has just asked.
    """

    state: State
    conversation: Conversation


@router.get("/models/{repository:path}")
async def show_model(request: Request, visitor: Visitor, token: VisitorToken, repository: InPath) -> Response:
    """One model; where the site serves it for the visitor, its state and how to ask it."""
    settings: Settings = request.app.state.settings
    details = await _find(request, "models", repository)
    if not may_ask(settings, visitor, repository):
        return await _page(request, details)
    return await _page(request, details, Serving(await _state(request, token, repository), Conversation()))


@router.post("/models/{repository:path}")
async def ask_model(
    request: Request, visitor: Visitor, token: VisitorToken, repository: InPath, prompt: Annotated[str, Form()] = ""
) -> Response:
    """The same page with the model's answer."""
    # of the site, it changes nothing; the inference server counts it
    audit.skip(request)
    settings: Settings = request.app.state.settings
    details = await _find(request, "models", repository)
    if not may_ask(settings, visitor, repository):
        raise HTTPException(404, f"This site does not run {repository!r} for you.")
    answered = await ask(request, token, repository, prompt)
    return await _page(request, details, Serving(await _state(request, token, repository), answered))


@router.get("/datasets/{repository:path}")
async def show_dataset(request: Request, repository: InPath) -> Response:
    """One dataset."""
    return await _page(request, await _find(request, "datasets", repository))


async def _state(request: Request, token: str | None, model_id: str) -> State:
    return (await read_states(request, token)).get(model_id, UNKNOWN)


async def _page(request: Request, repository: Repository, serving: Serving | None = None) -> Response:
    card, no_card = await _card(request, repository)
    settings: Settings = request.app.state.settings
    links = Links.of(settings, hub_of(request).public_url)
    return render(
        request,
        "repository.html",
        serving.conversation.status if serving else 200,
        kind=repository.kind,
        repository=repository,
        card=card,
        no_card=no_card,
        files=await _files(request, repository),
        most_files=MOST_FILES,
        # a name that no hub has may hold anything, and users run what they copy
        loading=loading(repository, links) if links.hub and is_repository(repository.id) else [],
        asking=asking(repository, links) if serving else [],
        serving=serving,
        prompts=serving is not None and takes_prompts(request, repository),
        longest_prompt=LONGEST_PROMPT,
        links=links,
    )


async def _find(request: Request, kind: Kind, repository: str) -> Repository:
    try:
        return await find(request, kind, repository)
    except HTTPException as error:
        if error.status_code != HTTPStatus.NOT_FOUND:
            raise
        text = f"There is no {SINGULAR[kind]} {repository!r}, or you may not read it. Search the list for its name."
        raise HTTPException(404, text) from None


async def _card(request: Request, repository: Repository) -> tuple[Markup, str]:
    """The card, or why there is none."""
    try:
        text, _ = await read_card(request, repository)
    except HTTPException as error:
        return Markup(), str(error.detail)
    # a long one takes seconds, in which other requests go on
    return await run_in_threadpool(card_html, text), ""


async def _files(request: Request, repository: Repository) -> list[File] | None:
    """Files by name; None: unknown."""
    if repository.files is None:
        return None
    try:
        read = await read_hub(request, repository.kind, repository.id, "sizes")
    except HTTPException:
        read = None  # the names are known
    sizes = (read.content if read else None) or {}
    return [File(name, sizes.get(name)) for name in repository.files]
