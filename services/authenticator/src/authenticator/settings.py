"""Settings, read from environment variables that start with `AUTHENTICATOR_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, HttpUrl, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from strata_http.settings import DatabaseSettings as Database
from strata_http.settings import ServeSettings, WebSettings


class DatabaseSettings(Database):
    """Where personal access tokens are stored; all that `migrate` needs."""

    model_config = SettingsConfigDict(env_prefix="AUTHENTICATOR_")

    database_name: str = Field(default="authenticator", description="Name of the database.")
    database_user: str = Field(default="authenticator", description="Role that owns the table.")


class Settings(DatabaseSettings, ServeSettings, WebSettings):
    """All that `serve` needs. The client of WebSettings logs browsers in and gets personal access tokens."""

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
    revoke_url: HttpUrl | None = Field(
        default=None, description="The issuer's revocation endpoint, as the service reaches it; unset: it has none."
    )
    account_url: HttpUrl = Field(description="Page where people log in by browser, and change their passwords.")
    password_client_id: str = Field(description="Client of the issuer that may pass on names and passwords.")
    password_client_secret_file: Path = Field(description="File with its secret; read at each login, so it may change.")
    personal_access_token_days: Annotated[int, Field(ge=1, le=365)] = Field(
        default=365, description="Longest lifetime of a personal access token, in days."
    )

    @model_validator(mode="before")
    @classmethod
    def _split_services(cls, values: dict[str, Any]) -> dict[str, Any]:
        if isinstance(text := values.get("services"), str):
            values["services"] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _check_password_client(self) -> Self:
        self.check_files("password_client_secret_file")
        return self

    @property
    def tenant_url(self) -> str:
        """Of the API, without a slash at its end: clients compare the text."""
        return str(self.base_url).rstrip("/")

    def read_password_client_secret(self) -> str:
        """The secret as it is now."""
        return self.password_client_secret_file.read_text().rstrip("\r\n")
