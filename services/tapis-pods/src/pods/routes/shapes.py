"""Results, in the shapes of Tapis."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import RowMapping

from pods.access import Level
from pods.mounts import Mount
from pods.spec import Networking, PodSpec, Resources, label
from pods.values import Username


class PodResult(BaseModel):
    """A pod."""

    pod_id: str
    image: str
    template: str = ""
    description: str
    command: list[str] | None
    arguments: list[str] | None
    environment_variables: dict[str, str]
    volume_mounts: dict[str, Mount]
    time_to_stop_default: int
    time_to_stop_instance: int | None
    networking: dict[str, Networking]
    resources: Resources
    compute_queue: str = Field(description="Tenant whose quota counts.")
    status_requested: str
    status: str
    status_container: dict[str, Any]
    creation_ts: datetime
    update_ts: datetime
    start_instance_ts: datetime | None
    time_to_stop_ts: datetime | None


def pod_result(row: RowMapping, domain: str) -> PodResult:
    """A pod as the table has it, with the URLs of its ports."""
    spec = PodSpec.model_validate(row["spec"])
    for key, entry in spec.networking.items():
        entry.url = f"{label(row['pod_id'], key)}.{domain}" if entry.published else ""
    return PodResult(
        **spec.model_dump(),
        pod_id=row["pod_id"],
        compute_queue=row["tenant"],
        **{
            name: row[name]
            for name in (
                "status_requested", "status", "status_container", "creation_ts", "update_ts", "start_instance_ts",
                "time_to_stop_ts",
            )
        },
    )  # fmt: skip


class Logs(BaseModel):
    """What the pod wrote, and what was done with it."""

    logs: str
    action_logs: list[str]


class Credentials(BaseModel):
    """A name and a password for what runs in the pod."""

    user_username: str
    user_password: str


class Permissions(BaseModel):
    """Permissions as "user:LEVEL"."""

    permissions: list[str]


class SetPermission(BaseModel):
    """Body of POST."""

    user: Username
    level: Level


class VolumeResult(BaseModel):
    """A volume."""

    volume_id: str
    description: str
    size_limit: int
    status: str = "AVAILABLE"
    compute_queue: str = Field(description="Tenant whose pods may mount it.")
    creation_ts: datetime
    update_ts: datetime


class SnapshotResult(BaseModel):
    """A snapshot."""

    snapshot_id: str
    source_volume_id: str
    source_volume_path: str
    destination_path: str
    description: str
    size_limit: int
    cron: str = ""
    retention_policy: str = ""
    size: int = Field(description="MiB, once it is AVAILABLE.")
    status: str = Field(description="CREATING, AVAILABLE or ERROR.")
    status_message: str = Field(description="Why it is in the status ERROR.")
    compute_queue: str = Field(description="Tenant whose pods may mount it.")
    creation_ts: datetime
    update_ts: datetime


class File(BaseModel):
    """A file or folder, in the fields of Tapis."""

    path: str = Field(description="From the root of the volume or snapshot.")
    name: str
    type: str = Field(description="file, dir, symbolic_link or other.")
    size: int = Field(description="Bytes.")
    lastModified: datetime
    nativePermissions: str = Field(description="As `ls -l` shows them.")
