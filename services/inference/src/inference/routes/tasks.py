"""Hugging Face's tasks: InferenceClient(model=URL) posts to the URL itself, and for conversations below it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from inference.dependencies import ASKED, Body, ModelServers, Person, SiteModels, described_body
from inference.routes.openai import TEXTS, ask_chat

router = APIRouter(prefix="/models", tags=["tasks"])


# before the wider path
@router.post(
    "/{model_id:path}/v1/chat/completions",
    summary="Answer a conversation by the model of the path",
    responses=ASKED,
    response_class=Response,
    openapi_extra=described_body(messages={"type": "array", "items": {"type": "object"}, "minItems": 1}),
)
async def chat(caller: Person, models: SiteModels, servers: ModelServers, model_id: str, body: Body) -> Response:
    """The body's `model` is ignored: InferenceClient sends a constant."""
    chosen = models.find(caller, model_id)
    return await ask_chat(servers, chosen, {**body, "model": chosen.runtime.model.id})


@router.post(
    "/{model_id:path}",
    summary="Do a task: {inputs, parameters}",
    responses=ASKED,
    response_class=Response,
    openapi_extra=described_body(inputs=TEXTS),
)
async def do_task(caller: Person, models: SiteModels, servers: ModelServers, model_id: str, body: Body) -> Response:
    """`[{generated_text}]`, labels or vectors, by what the model does. The id may have a slash, as it is or as %2F."""
    return await servers.forward(models.find(caller, model_id), "/", body)
