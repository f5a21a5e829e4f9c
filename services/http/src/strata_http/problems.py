"""Errors in one shape: application/problem+json of RFC 9457."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"

log = structlog.get_logger(__name__)


class InvalidValue(BaseModel):
    """One value of a request that was refused."""

    where: str = Field(description="Where it is, for instance query.limit.")
    message: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """What every error response holds."""

    type: str = Field(default="about:blank", description="Always about:blank: the status says which error it is.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The status code.")
    detail: str = Field(description="What happened, and what to do about it.")
    instance: str = Field(description="Path of the request.")
    request_id: str = Field(description="Also in the service's log.")
    errors: list[InvalidValue] = Field(default_factory=list, description="The values that were refused.")


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, text in (
        (401, "No token, or one that does not hold."),
        (422, "A value that cannot be."),
        (429, "More requests than the limit; Retry-After says when to go on."),
        (503, "The database or the token issuer does not answer."),
    )
}


def not_found(description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route that may find nothing."""
    return {404: {**RESPONSES[401], "description": description}}


def forbidden(description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route that some callers may not use."""
    return {403: {**RESPONSES[401], "description": description}}


def problem_response(
    request: Request,
    status: int,
    detail: str,
    *,
    errors: list[InvalidValue] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """One error as a response."""
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.url.path,
        request_id=str(getattr(request.state, "request_id", "")),
        errors=errors or [],
    )
    return JSONResponse(problem.model_dump(), status, headers, media_type=MEDIA_TYPE)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404 and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = f"there is nothing at this path; {request.app.openapi_url} lists what there is"
    return problem_response(request, error.status_code, detail, headers=dict(error.headers or {}))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [InvalidValue(where=".".join(str(p) for p in e["loc"]), message=str(e["msg"])) for e in error.errors()]
    return problem_response(request, 422, "the request holds values that cannot be", errors=errors)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    # runs outside of the middleware that gives log lines and responses the request's id
    request_id = str(getattr(request.state, "request_id", ""))
    log.error("unexpected error", request_id=request_id, exc_info=error)
    detail = "an error of the service; its log has the request id"
    return problem_response(request, 500, detail, headers={"X-Request-ID": request_id})


def install(app: FastAPI) -> None:
    """Registers the handlers."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(Exception, _unexpected)
