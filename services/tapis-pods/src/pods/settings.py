"""Settings, read from environment variables that start with `PODS_`."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from pods.spec import PodDefinition
from strata_http.settings import CommonSettings, Port, ServeSettings, WebSettings
from strata_http.settings import DatabaseSettings as Database


class Gpus(BaseModel):
    """GPUs that pods of a tenant may request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource: str = Field(description="Extended resource of Kubernetes.")
    maximum: int = Field(ge=1, description="Most that one pod may request.")
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes that have them.")
    tolerations: list[dict[str, str]] = Field(default_factory=list, description="Of these nodes' taints.")


class Tenant(BaseModel):
    """A tenant in whose namespace pods run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Of the tenant and its namespace.")
    images: tuple[str, ...] = Field(description="Repositories; one that ends with / allows all below it.")
    millicpu: int = Field(ge=0, description="CPU that all its pods together may request.")
    mebibytes: int = Field(ge=0, description="Memory that all its pods together may request.")
    gpus: Gpus | None = None
    environment: dict[str, str] = Field(default_factory=dict, description="Variables of pods that set no others.")


class SiteTemplate(BaseModel):
    """A template that everyone may use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Of the template.")
    description: str = ""
    pod_definition: PodDefinition

    @functools.cached_property
    def digest(self) -> str:
        """Other content, another one."""
        return hashlib.sha256(self.pod_definition.model_dump_json(exclude_unset=True).encode()).hexdigest()[:16]


class DatabaseSettings(Database):
    """Where the pods are kept; all that `migrate` needs."""

    model_config = SettingsConfigDict(env_prefix="PODS_")

    database_name: str = Field(default="pods", description="Name of the database.")
    database_user: str = Field(default="pods", description="Role that owns the tables.")


class ClusterSettings(CommonSettings):
    """Tenants, and how to reach Kubernetes."""

    model_config = SettingsConfigDict(env_prefix="PODS_")

    tenants_file: Path = Field(description="JSON list of the tenants.")
    domain: str = Field(
        pattern=r"^[a-z0-9.-]+$", max_length=150, description="Pods respond at https://<pod_id>.<domain>."
    )
    kubeconfig: Path | None = Field(default=None, description="File; unset: the pod's service account.")
    prometheus_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="Of what measures pods, without /api; empty: nothing does.",
    )

    @model_validator(mode="after")
    def _check_cluster(self) -> Self:
        self.check_files("tenants_file", "kubeconfig")
        try:
            names = [tenant.name for tenant in self.tenants.values()]
        except (ValidationError, ValueError) as error:
            raise ValueError(f"{self.variable('tenants_file')}: {self.tenants_file}: {error}") from None
        assert len(names) == len(set(names))
        return self

    @functools.cached_property
    def tenants(self) -> dict[str, Tenant]:
        """By name."""
        listed = TypeAdapter(list[Tenant]).validate_python(json.loads(self.tenants_file.read_text()))
        return {tenant.name: tenant for tenant in listed}


class Settings(DatabaseSettings, ClusterSettings, ServeSettings):
    """What `serve` and `files` need."""

    model_config = SettingsConfigDict(env_prefix="PODS_")

    audience: str = Field(default="pods", description="What the `aud` claim of a token must hold.")
    templates_file: Path | None = Field(default=None, description="JSON list of the site's templates.")

    @model_validator(mode="after")
    def _check_templates(self) -> Self:
        self.check_files("templates_file")
        try:
            assert self.templates is not None
        except (ValidationError, ValueError) as error:
            raise ValueError(f"{self.variable('templates_file')}: {self.templates_file}: {error}") from None
        return self

    @functools.cached_property
    def templates(self) -> dict[str, SiteTemplate]:
        """By name."""
        if self.templates_file is None:
            return {}
        listed = TypeAdapter(list[SiteTemplate]).validate_json(self.templates_file.read_text())
        return {template.name: template for template in listed}


class ApiSettings(Settings, WebSettings):
    """All that `serve` needs."""

    model_config = SettingsConfigDict(env_prefix="PODS_")


class FilesSettings(Settings):
    """All that `files` needs."""

    model_config = SettingsConfigDict(env_prefix="PODS_")

    volumes_path: Path = Field(description="Where the export with the volumes is mounted.")
    upload_mebibytes: int = Field(default=2048, ge=1, description="Longest file that is taken, in MiB.")

    @model_validator(mode="after")
    def _check_volumes(self) -> Self:
        if not self.volumes_path.is_dir():
            raise ValueError(f"{self.variable('volumes_path')}: there is no directory {self.volumes_path}")
        return self


class ReconcileSettings(DatabaseSettings, ClusterSettings):
    """All that `reconcile` needs."""

    model_config = SettingsConfigDict(env_prefix="PODS_")

    ingress_class: str = Field(default="traefik", description="IngressClass of the pods' names.")
    certificate_resolver: str = Field(
        default="", description="Of Traefik, for tcp and postgres names; empty: the default certificate covers them."
    )
    forward_auth_url: str = Field(
        default="", description="Of the API, as Traefik reaches it to ask about requests to pods with a login."
    )
    priority_class: str = Field(default="", description="PriorityClass of the pods; empty: the cluster's default.")
    volumes_claim: str = Field(default="pods", description="PersistentVolumeClaim of a tenant's folder of volumes.")
    volumes_group: int = Field(default=65532, ge=1, description="Numeric group that may write in volumes.")
    bind_address: str = Field(default="127.0.0.1", description="Address to listen on.")
    metrics_port: Port | None = Field(default=9464, description="TCP port of /metrics.")
    resync_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=5, description="Longest time between two comparisons of the database with Kubernetes."
    )
    idle_check_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=30, description="Least time between two queries for GPUs that are idle."
    )
