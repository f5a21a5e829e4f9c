"""Settings, read from environment variables that start with `INFERENCE_`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from strata_http.settings import HttpSettings


class ModelSettings(BaseModel):
    """One model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1, max_length=200, description="What clients name, as on the hub.")
    deployment: str = Field(min_length=1, description="Name of the Deployment, and of its pods' label `model`.")
    url: str = Field(pattern=r"^https?://[^/\s]+$", description="Of the model server.")
    accelerator: str = Field(default="cpu", description="cpu or gpu, shown to users.")
    tenants: frozenset[str] = Field(description="Tenants whose members may ask it.")
    idle_seconds: float = Field(gt=0, description="Time without a request after which it is stopped.")


class Settings(HttpSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="INFERENCE_")

    audience: str = Field(default="inference", description="What the `aud` claim of a token must hold.")
    models_file: Path = Field(description="JSON list of the models.")
    namespace: str = Field(default="strata-system", description="Of the Deployments of the models.")
    kubeconfig: Path | None = Field(default=None, description="File; unset: the pod's service account.")
    start_seconds: Annotated[float, Field(gt=0)] = Field(
        default=120, description="Longest time that a request waits for its model to start."
    )
    request_seconds: Annotated[float, Field(gt=0)] = Field(
        default=90, description="Longest time between two parts of an answer; more than the model server's own limit."
    )
    model_requests: Annotated[int, Field(ge=1)] = Field(
        default=128, description="Requests to one model that wait or run; beyond them, 429."
    )
    body_bytes: Annotated[int, Field(ge=1024)] = Field(default=1_048_576, description="Longest body of a request.")
    answer_bytes: Annotated[int, Field(ge=1024)] = Field(
        default=33_554_432, description="Longest answer of a model server that is not streamed."
    )
    check_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=5, description="Time between two looks at the Deployments."
    )

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        self.check_files("models_file", "kubeconfig")
        try:
            ids = [model.id for model in self.models]
        except (ValidationError, ValueError) as error:
            raise ValueError(f"{self.variable('models_file')}: {self.models_file}: {error}") from None
        if len(ids) != len(set(ids)):
            raise ValueError(f"{self.variable('models_file')}: {self.models_file}: two models have the same id")
        return self

    @functools.cached_property
    def models(self) -> tuple[ModelSettings, ...]:
        """In the order of the file."""
        return tuple(TypeAdapter(list[ModelSettings]).validate_json(self.models_file.read_text()))
