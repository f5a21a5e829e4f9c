"""Settings, read from environment variables that start with `HUB_MIRROR_`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, HttpUrl, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from strata_http.settings import DatabaseSettings as Database
from strata_http.settings import Port, ServeSettings

_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_TENANT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
Seconds = Annotated[int, Field(ge=0)]
Words = Annotated[tuple[str, ...], NoDecode]


class DatabaseSettings(Database):
    """All that `migrate` needs."""

    model_config = SettingsConfigDict(env_prefix="HUB_MIRROR_")


class FileSettings(DatabaseSettings):
    """All that `relocate` and `check` need."""

    model_config = SettingsConfigDict(env_prefix="HUB_MIRROR_")

    storage_path: Path = Field(description="Directory of cached files.")
    published_path: Path = Field(description="Directory of the files that tenants publish, and of uploads.")

    @model_validator(mode="after")
    def _check_directories(self) -> Self:
        for name in ("storage_path", "published_path"):
            if not (directory := getattr(self, name)).is_dir():
                raise ValueError(f"{self.variable(name)}: there is no directory {directory}")
        return self


class Settings(FileSettings, ServeSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="HUB_MIRROR_")

    rate_limit: str = Field(
        default="10000/minute", description="Requests of one caller to one route; beyond them, 429."
    )
    inside_port: Port = Field(
        default=8081, description="TCP port for pods of the cluster, which may read without a token of the site."
    )
    public_url: HttpUrl = Field(description="URL of the port that needs a token, for links in responses.")
    inside_url: HttpUrl = Field(description="URL of the port for pods, for links in responses.")
    upstream: HttpUrl = Field(default=HttpUrl("https://huggingface.co"), description="The Hub that is mirrored.")
    upstream_hosts: Words = Field(
        default=("*.hf.co", "*.huggingface.co"),
        description="Hosts beside the upstream's own that its redirects may lead to, separated by commas; `*.` is "
        "any name below. Without a port, the scheme's.",
    )
    upstream_ca_file: Path | None = Field(
        default=None, description="PEM file of the CA of the upstream's certificate; unset: the system's."
    )
    upstream_proxy: HttpUrl | None = Field(default=None, description="HTTP proxy for requests to the upstream.")
    upstream_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        default=30, description="Time for a connection, and between two parts of a response."
    )
    offline: bool = Field(default=False, description="Whether the upstream is never asked.")
    cache_bytes: Annotated[int, Field(ge=0)] = Field(description="Most that cached files use.")
    tenants: Words = Field(default=(), description="Tenants, which are namespaces here, separated by commas.")
    tenant_bytes: Annotated[int, Field(ge=0)] = Field(description="Most that the repositories of one tenant use.")
    revalidate_seconds: Seconds = Field(default=300, description="How long a branch, a list and a card are fresh.")
    missing_seconds: Seconds = Field(default=60, description="How long a refusal of the upstream is fresh.")

    @model_validator(mode="before")
    @classmethod
    def _split(cls, values: dict[str, object]) -> dict[str, object]:
        for name in ("upstream_hosts", "tenants"):
            if isinstance(text := values.get(name), str):
                values[name] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @field_validator("upstream_hosts")
    @classmethod
    def _check_hosts(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for host in values:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is not the name of a host such as cdn.example.org or *.example.org")
        return values

    @field_validator("tenants")
    @classmethod
    def _check_tenants(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for tenant in values:
            if not _TENANT.fullmatch(tenant):
                raise ValueError(f"{tenant!r} is not the name of a tenant")
        return values

    @model_validator(mode="after")
    def _check_mirror(self) -> Self:
        self.check_files("upstream_ca_file")
        return self
