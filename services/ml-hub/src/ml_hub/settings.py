"""Settings, read from environment variables that start with `ML_HUB_`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from strata_http.settings import DatabaseSettings as Database
from strata_http.settings import ServeSettings


class DatabaseSettings(Database):
    """Where the catalogue is kept; all that `migrate` and `load` need."""

    model_config = SettingsConfigDict(env_prefix="ML_HUB_")

    database_name: str = Field(default="ml_hub", description="Name of the database.")
    database_user: str = Field(default="ml_hub", description="Role that owns the tables.")


class Settings(DatabaseSettings, ServeSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="ML_HUB_")

    audience: str = Field(default="ml-hub", description="What the `aud` claim of a token must hold.")
