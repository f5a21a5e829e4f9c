"""Whether a model can be asked at the site."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from ml_hub.inference import auto_model, possible
from ml_hub.repository import find
from ml_hub.routes.lists import InPath, operation
from ml_hub.routes.shapes import InferencePossible, ModelServer, TransformersInfo, transformers_info
from ml_hub.settings import Settings
from strata_http.bearer import require_token
from strata_http.envelope import Envelope, ErrorEnvelope, success
from strata_http.tokens import Caller

router = APIRouter(tags=["inference"], generate_unique_id_function=operation)


class InferenceUnavailable(ErrorEnvelope):
    """No inference server responds for the model."""

    result: InferencePossible | None = Field(  # type: ignore[assignment]  # other errors have no result
        description="Whether there could be one; null: there is no such model."
    )


def may_ask(settings: Settings, caller: Caller, model_id: str) -> bool:
    """Whether the site serves the model to a tenant of the caller."""
    return bool(settings.inference_models.get(model_id, frozenset()).intersection(caller.tenants))


@router.get(
    "/models/{model_id:path}/inference",
    summary="Whether a model can be asked",
    response_model=Envelope[ModelServer],
    responses={
        404: {
            "model": InferenceUnavailable,
            "description": "No inference server responds for the model, or there is no such model.",
        }
    },
)
async def get_model_inference_server(
    request: Request, model_id: InPath, caller: Annotated[Caller, Depends(require_token)]
) -> Envelope[ModelServer] | JSONResponse:
    """Where members of your tenants ask it; else, whether an inference server could run it."""
    settings: Settings = request.app.state.settings
    repository = await find(request, "models", model_id)
    entry = repository.entry
    own = TransformersInfo(auto_model=auto_model(entry), pipeline_tag=entry["pipeline_tag"])
    info = transformers_info(repository) or own
    if may_ask(settings, caller, model_id):
        result = ModelServer(
            model_id=model_id,
            inference_endpoint=f"{str(settings.inference_url).rstrip('/')}/{quote(model_id)}",
            prompt_example=[
                example for example in repository.sequence("widgetData") or () if isinstance(example, dict)
            ],
            transformers_info=info,
        )
        return success(request, f"{model_id!r} can be asked", result)
    can = possible(entry)
    body = InferenceUnavailable(
        message=f"no inference server runs {model_id!r} for you; "
        + ("one could be provisioned" if can else "its task, its library or its access is not supported"),
        metadata={"request_id": request.state.request_id},
        result=InferencePossible(model_id=model_id, inference_server_possible=can, transformers_info=info),
        version=request.app.version,
    )
    return JSONResponse(body.model_dump(mode="json"), 404)
