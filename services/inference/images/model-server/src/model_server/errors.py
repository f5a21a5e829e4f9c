"""Errors as OpenAI's clients read them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from model_server.bodies import LimitError, field_of
from model_server.jobs import Failed

LOG = logging.getLogger(__name__)

TYPES = {404: "not_found_error", 429: "rate_limit_error"}


class FailedError(Exception):
    """A failure on its way to the client."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message)
        self.failure = failure


def content(failure: Failed) -> dict[str, Any]:
    """The body of an error."""
    kind = TYPES.get(failure.status, "invalid_request_error" if failure.status < 500 else "server_error")
    return {
        "error": {"message": failure.message, "type": kind, "param": failure.parameter, "code": failure.code},
    }


def response(failure: Failed) -> JSONResponse:
    """The response of an error."""
    headers = {}
    if failure.status in {429, 503}:
        headers["Retry-After"] = "1"
    if failure.status == 507:
        headers["x-should-retry"] = "false"  # read by OpenAI's clients, which retry all of 5xx otherwise
    return JSONResponse(content(failure), failure.status, headers)


def add_handlers(app: FastAPI) -> None:
    """Makes an application answer all errors so."""

    @app.exception_handler(FailedError)
    async def failed(_: Request, error: FailedError) -> JSONResponse:
        return response(error.failure)

    @app.exception_handler(LimitError)
    async def limit(_: Request, error: LimitError) -> JSONResponse:
        return response(Failed(400, "invalid_request", str(error), error.parameter))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        field = field_of(first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        return response(Failed(400, "invalid_request", f"{field}: {message}" if field else message, field or None))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return response(Failed(error.status_code, "http_error", str(error.detail)))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> JSONResponse:
        return response(Failed(500, "internal_error", "the model server failed; its log has the error"))
