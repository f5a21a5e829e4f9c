"""Results, in the shapes of Tapis."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import RowMapping

from pods.access import Level
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
    volume_mounts: dict[str, Any] = Field(default_factory=dict)
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
