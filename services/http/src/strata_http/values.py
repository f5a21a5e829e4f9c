"""Values of routes: texts of callers, the base of responses."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds half of a surrogate pair")
    return text


Storable = Annotated[str, AfterValidator(_storable)]
"""What PostgreSQL can hold; JSON can hold more."""
Text = Annotated[Storable, Field(min_length=1, max_length=256)]
"""A name or a search as callers give it."""


class Response(BaseModel):
    """Base of all responses; built from database rows."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())
