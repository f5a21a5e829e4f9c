"""Settings, read from environment variables that start with `EXAMPLE_SERVICE_`."""

from __future__ import annotations

from pydantic_settings import SettingsConfigDict
from strata_http.settings import DatabaseSettings as Database
from strata_http.settings import ServeSettings


class DatabaseSettings(Database):
    """All that `migrate` needs."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_SERVICE_")


class Settings(DatabaseSettings, ServeSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_SERVICE_")
