"""Volumes of cinder: what instances boot from, and disks for their data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from strata.models.base import Model
from strata.models.types import ResourceName, Size

_MOUNT_PATH = r"^/[^\s/]\S*$"


def _mount_path(value: Path) -> Path:
    # fstab separates its fields by spaces
    if re.match(_MOUNT_PATH, str(value)) is None or ".." in value.parts:
        raise PydanticCustomError(
            "mount_path",
            "must be an absolute path other than /, without spaces and '..'",
            {"fix": "for instance /srv/nfs"},
        )
    return value


MountPath = Annotated[
    Path, AfterValidator(_mount_path), WithJsonSchema({"type": "string", "pattern": _MOUNT_PATH, "maxLength": 4096})
]
VolumeType = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S(.*\S)?$")]
"""Name of a volume type, which administrators choose freely."""


class _Sized(Model):
    @model_validator(mode="after")
    def _whole_gibibytes(self) -> Self:
        size: Size = getattr(self, "size")  # noqa: B009  # declared by each model, in its own words
        size.require_whole("size", "GiB", 100)
        return self


class BootVolume(_Sized):
    """A root disk on a volume instead of the hypervisor's disk."""

    size: Annotated[Size, Field(description="Size; whole GiB. A change replaces the instance.")]
    volume_type: Annotated[
        VolumeType | None,
        Field(description="Volume type. A change replaces the instance. Default: the cloud's default type."),
    ] = None


class Volume(_Sized):
    """A data volume: attached, formatted with ext4 if it is blank, and mounted before the host's roles run.

    It is kept when its instance is deleted; only `--remove volume/NAME` deletes it.
    """

    name: Annotated[ResourceName, Field(description="Name of the volume in cinder, unique in the site.")]
    size: Annotated[Size, Field(description="Size; whole GiB. It can grow while in use, but cannot shrink.")]
    volume_type: Annotated[
        VolumeType | None,
        Field(
            description="Volume type, which Strata does not change. Default: the cloud's default type at its creation."
        ),
    ] = None
    mount_path: Annotated[
        MountPath,
        Field(description="Directory where the host mounts it, such as /var/lib/postgresql, or /srv/nfs for exports."),
    ]
