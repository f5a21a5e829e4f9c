"""Cards and files of models and datasets, which the site's hub has."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request

from ml_hub.hub import Kind
from ml_hub.repository import SINGULAR, Repository, find, hub_of, read_hub
from ml_hub.routes.lists import InPath, operation
from ml_hub.routes.shapes import DatasetCard, DatasetDownload, ModelCard, ModelDownload
from strata_http.envelope import ENVELOPE, Envelope, success

router = APIRouter(tags=["content"], generate_unique_id_function=operation)
MISSING = ENVELOPE.described({404: "There is no such name, or the site's hub does not have it."})
GATED = ENVELOPE.described({403: "The hub gives it only to accounts that were granted access."})


def _without_hub(request: Request, kind: Kind, repository: str, what: str) -> HTTPException:
    """404 for what the hub alone has."""
    noun = SINGULAR[kind]
    if hub_of(request).public_url:
        return HTTPException(404, f"the hub has no {what} of the {noun} {repository!r}")
    return HTTPException(
        404, f"this site has no hub, so it has no {what} of the {noun} {repository!r}; the catalogue holds its metadata"
    )


async def _download(request: Request, kind: Kind, repository: str) -> tuple[Repository, dict[str, Any]]:
    details = await find(request, kind, repository)
    if details.files is None:
        if details.metadata.get("stale"):
            detail = f"the hub does not respond, and {repository!r} was not read before; try again"
            raise HTTPException(503, detail, headers={"Retry-After": "30"})
        raise _without_hub(request, kind, repository, "files")
    values = {
        "sha": details.sha,
        "created_at": details.entry["created_at"],
        "last_modified": details.entry["last_modified"],
        "download_links": details.links(hub_of(request).public_url),
    }
    return details, values


async def read_card(request: Request, repository: Repository) -> tuple[str, dict[str, Any]]:
    """Markdown of the card of a model or dataset, and where it is from.

    Raises:
        HTTPException: 404 where the hub has none, 403 where it is gated, 503 where the hub does not respond.
    """
    card = await read_hub(request, repository.kind, repository.id, "card")
    if card is None or card.content is None:
        raise _without_hub(request, repository.kind, repository.id, "card")
    return _body(card.content), card.described


async def _card(request: Request, kind: Kind, repository: str) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Metadata of the card, its Markdown, and where they are from."""
    details = await find(request, kind, repository)
    text, source = await read_card(request, details)
    return details.mapping("cardData") or {}, text, source


def _body(card: str) -> str:
    """The Markdown below the metadata, which are YAML between two lines of three dashes."""
    lines = card.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        return card
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    return card if end is None else "\n".join(lines[end + 1 :]).lstrip("\n")


@router.get(
    "/download_model/{model_id:path}",
    summary="Links to a model's files",
    response_model_exclude_none=True,
    responses=MISSING,
)
async def download_model(request: Request, model_id: InPath) -> Envelope[ModelDownload]:
    """The files of the newest commit, at the site's hub."""
    repository, values = await _download(request, "models", model_id)
    return success(request, "files listed", ModelDownload(model_id=model_id, **values), **repository.metadata)


@router.get(
    "/download_dataset/{dataset_id:path}",
    summary="Links to a dataset's files",
    response_model_exclude_none=True,
    responses=MISSING,
)
async def download_dataset(request: Request, dataset_id: InPath) -> Envelope[DatasetDownload]:
    """The files of the newest commit, at the site's hub."""
    repository, values = await _download(request, "datasets", dataset_id)
    return success(request, "files listed", DatasetDownload(dataset_id=dataset_id, **values), **repository.metadata)


@router.get("/model_card/{model_id:path}", summary="A model's card", responses={**MISSING, **GATED})
async def get_model_card(request: Request, model_id: InPath) -> Envelope[ModelCard]:
    """What its authors wrote of it."""
    metadata, text, source = await _card(request, "models", model_id)
    return success(request, "card found", ModelCard(model_metadata=metadata, model_card=text), **source)


@router.get("/dataset_card/{dataset_id:path}", summary="A dataset's card", responses={**MISSING, **GATED})
async def get_dataset_card(request: Request, dataset_id: InPath) -> Envelope[DatasetCard]:
    """What its authors wrote of it."""
    metadata, text, source = await _card(request, "datasets", dataset_id)
    return success(request, "card found", DatasetCard(dataset_metadata=metadata, dataset_card=text), **source)
