"""Errors as application/problem+json of RFC 9457."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Request
from pydantic import BaseModel, Field

from strata_http.errors import ErrorFormat, InvalidValue


class Problem(BaseModel):
    """What every error response holds."""

    type: str = Field(default="about:blank", description="Always about:blank: the status identifies the error.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The status code.")
    detail: str = Field(description="What happened, and what to do about it.")
    instance: str = Field(description="Path of the request.")
    request_id: str = Field(description="Also in the service's log.")
    errors: list[InvalidValue] = Field(default_factory=list, description="The values that were refused.")


def _problem(request: Request, status: int, detail: str, errors: list[InvalidValue]) -> Problem:
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.url.path,
        request_id=str(getattr(request.state, "request_id", "")),
        errors=errors,
    )


PROBLEMS = ErrorFormat(Problem, "application/problem+json", 422, _problem)


def not_found(description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route that may find nothing."""
    return PROBLEMS.described({404: description})


def forbidden(description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route that some callers may not use."""
    return PROBLEMS.described({403: description})
