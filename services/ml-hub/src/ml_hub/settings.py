"""Settings, read from environment variables that start with `ML_HUB_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, HttpUrl, model_validator
from pydantic_settings import SettingsConfigDict

from strata_http.settings import DatabaseSettings as Database
from strata_http.settings import ServeSettings, WebSettings


class DatabaseSettings(Database):
    """Where the catalogue is kept; all that `migrate` and `load` need."""

    model_config = SettingsConfigDict(env_prefix="ML_HUB_")

    database_name: str = Field(default="ml_hub", description="Name of the database.")
    database_user: str = Field(default="ml_hub", description="Role that owns the tables.")


class Settings(DatabaseSettings, ServeSettings, WebSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="ML_HUB_")

    audience: str = Field(default="ml-hub", description="What the `aud` claim of a token must hold.")
    hub_endpoint: HttpUrl | None = Field(
        default=None,
        description="URL of the Hugging Face API that details, cards and file names are read from; unset: the "
        "catalogue alone.",
    )
    hub_public_url: HttpUrl | None = Field(
        default=None, description="URL of the hub in links for users; unset: that of the endpoint."
    )
    hub_ca_file: Path | None = Field(
        default=None, description="PEM file of the CA that signed the endpoint's server; unset: the system's."
    )
    hub_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=10, description="Limit for a request to the endpoint."
    )
    hub_pause_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=30, description="How long no request is sent to an endpoint that did not respond."
    )
    hub_fresh_seconds: Annotated[float, Field(ge=0)] = Field(
        default=600, description="How long what was read is used before it is read again."
    )
    hub_cache_bytes: Annotated[int, Field(ge=1)] = Field(
        default=256 * 2**20, description="Limit for what is stored of the hub; the oldest leaves first."
    )
    inference_url: HttpUrl | None = Field(
        default=None, description="URL of the inference server; the id of a model follows. Unset: there is none."
    )
    inference_internal_url: HttpUrl | None = Field(
        default=None, description="URL of the inference server as the service reaches it; unset: pages ask no model."
    )
    openai_url: HttpUrl | None = Field(
        default=None, description="URL of the inference server's API in OpenAI's form, in lines for users."
    )
    api_login_url: HttpUrl | None = Field(
        default=None, description="URL of the API's login, in lines for users; unset: they read of no login."
    )
    token_page_url: HttpUrl | None = Field(
        default=None, description="Page where users create personal access tokens; unset: there is none."
    )
    inference_models: dict[str, frozenset[str]] = Field(
        default_factory=dict, description="JSON: by id of a model, the tenants whose members may ask it."
    )

    @model_validator(mode="after")
    def _check_hub(self) -> Self:
        self.check_files("hub_ca_file")
        if self.inference_models and self.inference_url is None:
            raise ValueError(f"{self.variable('inference_models')} needs {self.variable('inference_url')}")
        return self
