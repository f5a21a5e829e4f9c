"""Tapis' ML Hub: its inference server, in its envelope."""

from __future__ import annotations

import json
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from inference.dependencies import ASKED, Body, ModelServers, Person, SiteModels, described_body
from strata_http.envelope import Envelope, success

router = APIRouter(prefix="/v3/ml-hub/inference", tags=["ml-hub"])


class ModelState(BaseModel):
    """A model and what it does now."""

    model_id: str
    state: Literal["stopped", "starting", "ready", "failed"] = Field(
        description="`stopped` starts with the next request."
    )
    reason: str = Field(description="Why it has failed; empty otherwise.")
    accelerator: str = Field(description="cpu or gpu.")
    idle_seconds: float = Field(description="Time without a request after which it is stopped.")


class Available(BaseModel):
    """The models that a caller may ask."""

    pipeline_tag: str = "text2text-generation"
    available_models: list[str]
    models: list[ModelState]


@router.get("", summary="The models that you may ask, with their states")
async def available(request: Request, caller: Person, models: SiteModels) -> Envelope[Available]:
    """Those of your tenants."""
    states = [
        ModelState(
            model_id=runtime.model.id,
            state=runtime.state,
            reason=runtime.reason,
            accelerator=runtime.model.accelerator,
            idle_seconds=runtime.model.idle_seconds,
        )
        for runtime in models.of(caller)
    ]
    result = Available(available_models=[state.model_id for state in states], models=states)
    return success(request, f"{len(states)} models are available", result)


@router.post(
    "/{model_id:path}",
    summary="Ask a model: {prompt}",
    responses=ASKED,
    openapi_extra=described_body(prompt={"type": "string"}),
)
async def ask(
    request: Request, caller: Person, models: SiteModels, servers: ModelServers, model_id: str, body: Body
) -> Envelope[str]:
    """The result is the text. Errors have their real status, in the envelope."""
    chosen = models.find(caller, model_id)
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise HTTPException(400, "prompt: must be a text")
    name = chosen.runtime.model.id
    answer = await servers.forward(chosen, "/v1/completions", {"model": name, "prompt": prompt})
    text, message = _read(bytes(answer.body))
    if answer.status_code != 200 or text is None:
        kept = {name: answer.headers[name] for name in ("Retry-After",) if name in answer.headers}
        status = answer.status_code if answer.status_code >= 400 else 502
        raise HTTPException(status, message or "the model server's answer has no text", headers=kept)
    return success(request, f"{name} answered", text)


def _read(body: bytes) -> tuple[str | None, str]:
    """The text of a completion, or the message of an error."""
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return None, ""
    try:
        return str(answer["choices"][0]["text"]), ""
    except (KeyError, IndexError, TypeError):
        pass
    try:
        return None, str(answer["error"]["message"])
    except (KeyError, TypeError):
        return None, ""
