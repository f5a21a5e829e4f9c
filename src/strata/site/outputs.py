"""Outputs of each layer: typed values, stored as JSON in the site's state directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict

from strata.image_reference import ImageReference
from strata.site.paths import SitePaths


class Outputs(BaseModel):
    """Base of all layer outputs; `load` and `save` know the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file_name: ClassVar[str]

    @classmethod
    def load(cls, paths: SitePaths) -> Self | None:
        """The stored value, or None where the layer has not run."""
        file = paths.outputs / cls.file_name
        if not file.exists():
            return None
        return cls.model_validate_json(file.read_text())

    def save(self, paths: SitePaths) -> bool:
        """Writes the value atomically; returns whether it differs from the former content."""
        return write_private(paths.outputs / self.file_name, self.model_dump_json(indent=1) + "\n")


class InstanceOutput(BaseModel):
    """One instance as OpenStack made it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    name: str
    address: str
    flavor: str
    roles: tuple[str, ...]
    floating_ip: str | None = None
    """Where it is reachable from outside the cloud."""
    volumes: dict[str, str] = {}
    """Name of each volume for data to its id."""


class CloudOutputs(Outputs):
    """What the cloud layer outputs to the hosts layer."""

    file_name = "cloud.json"
    instances: dict[str, InstanceOutput]
    networks: dict[str, str]
    """Network name to id."""
    virtual_floating_ip: str | None = None
    """Where the virtual address of the load balancers is reachable from outside the cloud."""


class ExistingObjects(Outputs):
    """Objects of an existing cloud that the site found there when it was first brought up."""

    file_name = "existing.json"
    images: dict[str, str] = {}
    """Image name to id: an image that is uploaded again under the name replaces no instance."""


class ImageOutputs(Outputs):
    """Images pushed to the site's registry."""

    file_name = "images.json"
    images: dict[str, ImageReference]
    """By short name."""


class ClusterOutputs(Outputs):
    """What the cluster layer outputs to the platform layer."""

    file_name = "cluster.json"
    api_endpoint: str
    kubernetes_version: str
    installer: str = "kubeadm"
    """What installed the cluster; another one cannot take it over."""


PARTIAL = ".partial"
"""Ends the names of files that are being written."""


def remove_partial(directory: Path) -> int:
    """Removes what an interrupted run left partially written below a directory; returns how many files."""
    files = list(directory.rglob(f".*{PARTIAL}"))
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)


def write_private(file: Path, text: str) -> bool:
    """Writes a file (mode 0600) atomically; returns whether its content changed."""
    if file.exists() and file.read_text() == text:
        return False
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=PARTIAL)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return True
