"""A pod image by its digest."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator


class ImageReference(BaseModel):
    """An image by its digest, `registry.<domain>:5000/strata/pause@sha256:…`; written to JSON as that text."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    repository: str = Field(min_length=1)
    digest: str = Field(pattern="^sha256:[0-9a-f]{64}$")

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        repository, _, digest = value.partition("@")
        return {"repository": repository, "digest": digest}

    @model_serializer
    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}"
