"""Answers in Tapis' envelope: message, metadata, result, status, version; its clients read nothing else."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, Field

from strata_http.errors import ErrorFormat, InvalidValue

ResultT = TypeVar("ResultT")


class Envelope(BaseModel, Generic[ResultT]):
    """What every successful response holds."""

    message: str = Field(description="What was done.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="About the result, for instance its length.")
    result: ResultT
    status: Literal["success"] = "success"
    version: str = Field(description="Version of the API.")


class ErrorEnvelope(BaseModel):
    """What every error response holds."""

    message: str | list[str] = Field(
        description="What happened, and what to do about it; of refused values, a list of `where: what is wrong`."
    )
    metadata: dict[str, Any] = Field(description="`request_id`, which is also in the service's log.")
    result: None = None
    status: Literal["error"] = "error"
    version: str = Field(description="Version of the API.")


def success(request: Request, message: str, result: ResultT, **metadata: Any) -> Envelope[ResultT]:
    """A result in the envelope; an empty text or None as result makes Tapis' client return the whole envelope."""
    return Envelope(message=message, metadata=metadata, result=result, version=request.app.version)


def _error(request: Request, status: int, detail: str, errors: list[InvalidValue]) -> ErrorEnvelope:  # noqa: ARG001
    return ErrorEnvelope(
        message=[f"{error.where}: {error.message}" for error in errors] or detail,
        metadata={"request_id": str(getattr(request.state, "request_id", ""))},
        version=request.app.version,
    )


ENVELOPE = ErrorFormat(ErrorEnvelope, "application/json", 400, _error)
"""For `Api(errors=…)`."""
