"""Errors of all kinds, answered in the format that the service has chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

log = structlog.get_logger(__name__)


class InvalidValue(BaseModel):
    """One value of a request that was refused."""

    where: str = Field(description="Where it is, for instance query.limit.")
    message: str = Field(description="What is wrong with it.")


@dataclass(frozen=True)
class ErrorFormat:
    """How a service answers errors.

    Args:
        model: of the body; its name is that of the schema in the OpenAPI document.
        media_type: of the response.
        invalid_status: of a request with values that cannot be.
        body: makes the body of one error: request, status, text, refused values.
    """

    model: type[BaseModel]
    media_type: str
    invalid_status: int
    body: Callable[[Request, int, str, list[InvalidValue]], BaseModel]

    def described(self, statuses: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
        """`responses` of a route.

        Args:
            statuses: status to its description.
        """
        content = {self.media_type: {"schema": {"$ref": f"#/components/schemas/{self.model.__name__}"}}}
        return {status: {"description": text, "content": content} for status, text in statuses.items()}

    @property
    def responses(self) -> dict[int | str, dict[str, Any]]:
        """What every route may answer."""
        common = {
            401: "No token, or one that does not hold.",
            429: "More requests than the limit; Retry-After has when to retry.",
            503: "The database or the token issuer does not respond.",
        }
        # the same status where invalid values have 400
        refused = {400: "Two tokens that differ."} | {self.invalid_status: "A value that cannot be."}
        return self.described(refused | common)


def error_response(
    request: Request,
    status: int,
    detail: str,
    *,
    errors: list[InvalidValue] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """One error as a response: where pages respond, as a page."""
    if page := getattr(request.state, "error_page", None):
        made: Response = page(
            request, status, detail, [f"{error.where}: {error.message}" for error in errors or []], headers
        )
        return made
    chosen: ErrorFormat = request.app.state.error_format
    body = chosen.body(request, status, detail, errors or [])
    return JSONResponse(body.model_dump(), status, headers, media_type=chosen.media_type)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404 and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = f"there is nothing at this path; {request.app.openapi_url} lists what there is"
    return error_response(request, error.status_code, detail, headers=dict(error.headers or {}))


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [InvalidValue(where=".".join(str(p) for p in e["loc"]), message=str(e["msg"])) for e in error.errors()]
    chosen: ErrorFormat = request.app.state.error_format
    return error_response(request, chosen.invalid_status, "the request holds values that cannot be", errors=errors)


async def _unexpected(request: Request, error: Exception) -> Response:
    # runs outside of the middleware that gives log lines and responses the request's id
    request_id = str(getattr(request.state, "request_id", ""))
    log.error("unexpected error", request_id=request_id, exc_info=error)
    detail = "an error of the service; its log has the request id"
    return error_response(request, 500, detail, headers={"X-Request-ID": request_id})


def install(app: FastAPI, chosen: ErrorFormat) -> None:
    """Registers the handlers."""
    app.state.error_format = chosen
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(Exception, _unexpected)
