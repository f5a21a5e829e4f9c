"""Volumes and snapshots that a pod mounts: the two forms in which Tapis' clients name them."""

from __future__ import annotations

import posixpath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pods.paths import parts_of
from pods.values import Text

Kind = Literal["tapisvolume", "tapissnapshot"]
OTHER_KINDS = ("pvc", "ephemeral", "config")
DEFAULT_PATH = "/tapis_volume_mount"
LONGEST_PATH = 255
MOST = 10
SYSTEM_PATHS = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""That the container's runtime and the kubelet mount themselves."""
NOT_SERVED: dict[str, Any] = {"config_content": None, "config_permissions": None}
"""Fields of other kinds of mounts."""


class Mount(BaseModel):
    """One mount; `volume_mounts` has either its path or the volume's name as key."""

    model_config = ConfigDict(extra="forbid")

    type: Kind = Field(description="tapisvolume or tapissnapshot.")
    source_id: Text = Field(default="", description="Name of the volume or snapshot, where the key is the path.")
    mount_path: Text = Field(default="", description="Path in the pod, where the key is the name.")
    sub_path: Text = Field(default="", description="Folder or file of the volume that is mounted; empty: all.")
    read_only: bool = Field(default=False, description="Mount it read-only, as snapshots always are.")

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_served(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.get("type") in OTHER_KINDS:
            raise ValueError(f"type {values['type']} is not available at this site: use tapisvolume or tapissnapshot")
        for key in NOT_SERVED.keys() & values.keys():
            if values[key]:
                raise ValueError(f"{key} is not available at this site; leave it out")
        return {key: value for key, value in values.items() if key not in NOT_SERVED}

    @property
    def kind(self) -> Literal["volume", "snapshot"]:
        """Of what is mounted."""
        return "volume" if self.type == "tapisvolume" else "snapshot"

    @property
    def writable(self) -> bool:
        """Whether the pod may write there."""
        return self.type == "tapisvolume" and not self.read_only


def completed(given: dict[str, Mount]) -> dict[str, Mount]:
    """The mounts with both name and path, under the keys that the client chose.

    Raises:
        ValueError: names which mount cannot be, and why.
    """
    mounts = {key: _completed(key, mount) for key, mount in given.items()}
    for key, mount in mounts.items():
        try:
            _check_path(mount.mount_path)
            parts_of(mount.sub_path)
        except ValueError as error:
            raise ValueError(f"{key[:100]}: {error}") from None
    paths = [mount.mount_path for mount in mounts.values()]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"two mounts have the path {path}")
    return mounts


def _completed(key: str, mount: Mount) -> Mount:
    if key.startswith("/"):
        if not mount.source_id:
            raise ValueError(f"{key[:100]}: source_id is missing: the name of the volume or snapshot")
        if mount.mount_path not in ("", key, DEFAULT_PATH):
            raise ValueError(f"{key[:100]}: mount_path {mount.mount_path[:100]} is not the key; leave it out")
        return mount.model_copy(update={"mount_path": key})
    if mount.source_id not in ("", key):
        raise ValueError(f"{key[:100]}: source_id {mount.source_id[:100]} is not the key; leave it out")
    return mount.model_copy(update={"source_id": key, "mount_path": mount.mount_path or DEFAULT_PATH})


def _check_path(path: str) -> None:
    if not path.startswith("/") or path == "/" or posixpath.normpath(path) != path or path.startswith("//"):
        raise ValueError(f"the mount path {path[:100]} must be absolute, not /, and without ., .., // or / at its end")
    if len(path) > LONGEST_PATH:
        raise ValueError(f"the mount path is longer than {LONGEST_PATH} characters")
    if ":" in path or not path.isprintable():
        raise ValueError(f"the mount path {path[:100]!r} holds a colon or a control character")
    for taken in SYSTEM_PATHS:
        if f"{path}/".startswith(f"{taken}/") or taken.startswith(f"{path}/"):
            raise ValueError(f"the mount path {path[:100]} would hide {taken}, which the container needs")
