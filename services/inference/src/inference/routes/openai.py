"""OpenAI's API, as the model servers have it."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response
from pydantic import BaseModel, Field

from inference.bodies import Json
from inference.dependencies import ASKED, NO_MODEL, Body, ModelServers, Person, SiteModels, described_body
from inference.forwarding import Forwarder
from inference.models import Chosen, Models
from strata_http.tokens import Caller

router = APIRouter(prefix="/v1", tags=["openai"])
STARTED = int(time.time())
MODEL: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


class OpenAiModel(BaseModel):
    """A model in OpenAI's form."""

    id: str = Field(description="What requests name as `model`.")
    object: str = "model"
    created: int = Field(default=STARTED, description="When the service started: models have no time.")
    owned_by: str = "strata"


class OpenAiModels(BaseModel):
    """A list in OpenAI's form."""

    object: str = "list"
    data: list[OpenAiModel]


@router.get("/models", summary="The models that you may ask")
async def list_models(caller: Person, models: SiteModels) -> OpenAiModels:
    """Those of your tenants, also while they are stopped."""
    return OpenAiModels(data=[OpenAiModel(id=runtime.model.id) for runtime in models.of(caller)])


@router.get("/models/{model_id:path}", summary="One of these models", responses=NO_MODEL)
async def get_model(caller: Person, models: SiteModels, model_id: str) -> OpenAiModel:
    """Its id may have a slash, as it is or as %2F."""
    return OpenAiModel(id=models.find(caller, model_id).runtime.model.id)


def chosen(models: Models, caller: Caller, body: Json) -> Chosen:
    """The model that a body names.

    Raises:
        HTTPException: 400, 404.
    """
    name = body.get("model")
    if not isinstance(name, str):
        raise HTTPException(400, "model: must be the id of a model, as GET /v1/models lists them")
    return models.find(caller, name)


@router.post(
    "/completions",
    summary="Continue or transform a text",
    responses=ASKED,
    response_class=Response,
    openapi_extra=described_body(model=MODEL, prompt=TEXTS),
)
async def complete(caller: Person, models: SiteModels, servers: ModelServers, body: Body) -> Response:
    """With `stream`, server-sent events."""
    return await servers.forward(chosen(models, caller, body), "/v1/completions", body)


@router.post(
    "/chat/completions",
    summary="Answer a conversation",
    responses=ASKED,
    response_class=Response,
    openapi_extra=described_body(model=MODEL, messages={"type": "array", "items": {"type": "object"}, "minItems": 1}),
)
async def chat(caller: Person, models: SiteModels, servers: ModelServers, body: Body) -> Response:
    """With `stream`, server-sent events."""
    return await ask_chat(servers, chosen(models, caller, body), body)


async def ask_chat(servers: Forwarder, model: Chosen, body: Json) -> Response:
    """Asks a model for the next turn."""
    return await servers.forward(model, "/v1/chat/completions", body)


@router.post(
    "/embeddings",
    summary="Vectors of texts",
    responses=ASKED,
    response_class=Response,
    openapi_extra=described_body(model=MODEL, input=TEXTS),
)
async def embed(caller: Person, models: SiteModels, servers: ModelServers, body: Body) -> Response:
    """Of a model for embeddings."""
    return await servers.forward(chosen(models, caller, body), "/v1/embeddings", body)
