"""Settings, read from environment variables that start with `TOKEN_ISSUER_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, HttpUrl, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

MAXIMUM_LIFETIME_SECONDS = 3600


class Settings(BaseSettings):
    """All that the service needs."""

    model_config = SettingsConfigDict(env_prefix="TOKEN_ISSUER_", extra="ignore", frozen=True)

    bind_address: str = Field(default="127.0.0.1", description="Address to listen on.")
    bind_port: Annotated[int, Field(ge=1, le=65535)] = Field(default=8080, description="TCP port.")
    issuer: HttpUrl = Field(description="URL that callers reach the service at; the `iss` claim of its tokens.")
    signing_key_file: Path = Field(description="PEM file with an RSA (2048 bits or more) or EC P-256 private key.")
    previous_keys_directory: Path | None = Field(
        default=None, description="PEM files of the public keys whose tokens may still be alive; published only."
    )
    clients_file: Path = Field(description="JSON file: client id to secret, audiences and scopes.")
    lifetime_seconds: Annotated[int, Field(ge=60, le=MAXIMUM_LIFETIME_SECONDS)] = Field(
        default=900, description="How long a token holds; at most an hour."
    )

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        for name in ("signing_key_file", "clients_file"):
            file: Path = getattr(self, name)
            if not file.is_file():
                raise ValueError(f"TOKEN_ISSUER_{name.upper()}: there is no file {file}")
        return self

    @property
    def issuer_claim(self) -> str:
        """The issuer without the slash that URL types add."""
        return str(self.issuer).rstrip("/")
