"""Settings, read from environment variables that start with `ACCOUNTING_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import psycopg
from pydantic import Field
from pydantic_settings import NoDecode, SettingsConfigDict

from strata_http import settings
from strata_http.settings import BindSettings, IssuerSettings

Names = Annotated[str, NoDecode]


class DatabaseSettings(settings.DatabaseSettings):
    """Where the records are kept; all that `migrate` needs."""

    model_config = SettingsConfigDict(env_prefix="ACCOUNTING_")

    database_name: str = Field(default="accounting", description="Name of the database.")
    database_user: str = Field(default="accounting", description="Role that owns the database.")

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection in autocommit mode.

        Raises:
            psycopg.OperationalError: the server refuses or does not respond within 5 s.
        """
        return psycopg.connect(
            host=self.database_host,
            port=self.database_port,
            dbname=self.database_name,
            user=self.database_user,
            password=self.read_database_password(),
            sslmode=self.database_tls,
            sslrootcert=str(self.database_ca_file) if self.database_ca_file else None,
            connect_timeout=5,
            application_name="accounting",
            autocommit=True,
        )


class JobSettings(DatabaseSettings):
    """All that `jobs` needs."""

    htcondor_collector: str = Field(description="Host and port of HTCondor's central manager.")
    htcondor_schedds: Names = Field(description="Names of the schedds, separated by commas.")
    htcondor_domain: str = Field(description="Trust domain of the pool.")
    htcondor_token_file: Path = Field(description="File with a token of scope READ.")
    jobs_seconds: Annotated[int, Field(ge=1)] = Field(default=20, description="Seconds between two readings.")
    jobs_alive_file: Path = Field(default=Path("/tmp/jobs"), description="Touched after each reading.")  # noqa: S108  # the pod's own


class ServeSettings(DatabaseSettings, IssuerSettings, BindSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="ACCOUNTING_")

    audience: str = Field(default="accounting", description="What the `aud` claim of a token must hold.")
    maximum_bytes: Annotated[int, Field(ge=1)] = Field(default=1_000_000, description="Of the body of a request.")
    maximum_rows: Annotated[int, Field(ge=1)] = Field(default=1000, description="Of a request or an answer.")


class Settings(DatabaseSettings):
    """All that `collect` needs."""

    kubernetes_url: str = Field(default="https://kubernetes.default.svc", description="Kubernetes' API server.")
    kubernetes_credentials: Literal["service-account", "none"] = Field(
        default="service-account", description="`none` is for an API server on loopback only."
    )
    tenants: Names = Field(default="", description="Names of the tenants, separated by commas.")
    card_resources: Names = Field(default="", description="Extended resources that are cards, separated by commas.")
    prometheus_url: str = Field(default="", description="Prometheus with the usage of pods; empty: none is recorded.")
    retention_usage: Annotated[int, Field(ge=12)] = Field(
        default=24, description="Months for which the usage of pods and the energy of cards are kept."
    )
    retention_records: Annotated[int, Field(ge=12)] = Field(
        default=60, description="Months for which pods, jobs, instances and nodes are kept after their end."
    )
    retention_measurements: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Months for which users' measurements are kept; 0: for ever."
    )
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = Field(default=9101, description="TCP port of /metrics.")
    list_seconds: Annotated[int, Field(ge=1)] = Field(default=300, description="Seconds between two whole lists.")
    watch_seconds: Annotated[int, Field(ge=1)] = Field(
        default=30, description="Seconds until a watch ends and starts again."
    )
    alive_file: Path = Field(default=Path("/tmp/collected"), description="Touched after each list or watch.")  # noqa: S108  # the pod's own
