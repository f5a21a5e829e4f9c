"""Settings, read from environment variables that start with `AUTHENTICATOR_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, HttpUrl, SecretStr, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from strata_http.settings import HttpSettings


class Settings(HttpSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="AUTHENTICATOR_")

    audience: str = Field(default="authenticator", description="What the `aud` claim of a token must hold.")
    keys_lifetime_seconds: Annotated[int, Field(ge=1)] = Field(
        default=30, description="How long the issuer's keys are used before they are fetched again."
    )
    site: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")] = Field(
        description="Name of the site, which is the id of its Tapis site and tenant."
    )
    base_url: HttpUrl = Field(description="URL of the API, as clients write it: https://api.example.org.")
    services: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("authenticator",), description="Services of the API, separated by commas."
    )
    authorize_url: HttpUrl = Field(description="The issuer's authorization endpoint, for browsers.")
    token_url: HttpUrl = Field(description="The issuer's token endpoint, as the service reaches it.")
    account_url: HttpUrl = Field(description="Page where people log in by browser, and change their passwords.")
    client_id: str = Field(description="Client of the issuer that may pass on names and passwords.")
    client_secret: SecretStr | None = Field(default=None, description="Secret of the client.")
    client_secret_file: Path | None = Field(
        default=None, description="File with the secret; read at each login, so it may change."
    )

    @model_validator(mode="before")
    @classmethod
    def _split_services(cls, values: dict[str, Any]) -> dict[str, Any]:
        if isinstance(text := values.get("services"), str):
            values["services"] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _check_client(self) -> Self:
        if (self.client_secret is None) == (self.client_secret_file is None):
            one, other = self.variable("client_secret"), self.variable("client_secret_file")
            raise ValueError(f"set either {one} or {other}")
        self.check_files("client_secret_file")
        return self

    @property
    def tenant_url(self) -> str:
        """Of the API, without a slash at its end: clients compare the text."""
        return str(self.base_url).rstrip("/")

    def read_client_secret(self) -> str:
        """The secret as it is now."""
        if self.client_secret_file is not None:
            return self.client_secret_file.read_text().rstrip("\r\n")
        assert self.client_secret is not None
        return self.client_secret.get_secret_value()
