"""Values of routes: texts of callers, the base of responses."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


Text = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_no_nul)]
"""A name or a search as callers give it."""


class Response(BaseModel):
    """Base of all responses; built from database rows."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())
