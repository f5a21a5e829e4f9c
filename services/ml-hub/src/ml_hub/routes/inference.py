"""Whether a model can be asked at the site."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from ml_hub.inference import auto_model, possible
from ml_hub.repository import find
from ml_hub.routes.lists import InPath, operation
from ml_hub.routes.shapes import InferencePossible, TransformersInfo, transformers_info
from strata_http.envelope import ErrorEnvelope

router = APIRouter(tags=["inference"], generate_unique_id_function=operation)


class InferenceUnavailable(ErrorEnvelope):
    """No inference server responds for the model."""

    result: InferencePossible | None = Field(  # type: ignore[assignment]  # other errors have no result
        description="Whether there could be one; null: there is no such model."
    )


@router.get(
    "/models/{model_id:path}/inference",
    summary="Whether a model can be asked",
    status_code=404,
    response_model=InferenceUnavailable,
    response_description="No inference server responds for the model, or there is no such model.",
)
async def get_model_inference_server(request: Request, model_id: InPath) -> JSONResponse:
    """No model can be asked yet; says whether an inference server could run it."""
    found = await find(request, "models", model_id)
    entry = found.entry
    own = TransformersInfo(auto_model=auto_model(entry), pipeline_tag=entry["pipeline_tag"])
    can = possible(entry)
    body = InferenceUnavailable(
        message=f"no inference server runs {model_id!r}; "
        + ("one could be provisioned" if can else "its task, its library or its access is not supported"),
        metadata={"request_id": request.state.request_id},
        result=InferencePossible(
            model_id=model_id, inference_server_possible=can, transformers_info=transformers_info(found) or own
        ),
        version=request.app.version,
    )
    return JSONResponse(body.model_dump(mode="json"), 404)
