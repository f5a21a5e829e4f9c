"""Images as they are sent, in the cache: built and packed once on a machine, for the registries of all its sites."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from strata.access.podman import exists, podman
from strata.images.build import LOCAL_PREFIX, ImageSource, build
from strata.locks import file_lock
from strata.progress import Progress
from strata.site.paths import cache_directory


def ensure_oci_layout(source: ImageSource, content: str, progress: Progress) -> Path:
    """An image as an OCI layout with compressed layers; built and packed where that has not been done.

    Args:
        source: what it is made of.
        content: its content hash.
        progress: receives status messages.

    Returns:
        directory of the layout, which holds this image only.

    Raises:
        UserError: podman or uv refused.
    """
    layout = cache_directory() / "images" / "pods" / content
    if layout.exists():
        return layout
    layout.parent.mkdir(parents=True, exist_ok=True)
    # without the folder: an image that did not change is not built again when its set did
    name = source.name.rpartition("/")[2]
    with file_lock(layout.with_suffix(".lock"), progress, f"another process to build {name}"):
        if layout.exists():
            return layout
        reference = f"{LOCAL_PREFIX}/{name}:{content}"
        if not exists("image", reference):
            progress.update(f"building image {source.name}")
            build(source, reference)
        progress.update(f"packing image {source.name}")
        _pack(reference, layout)
    return layout


def _pack(reference: str, layout: Path) -> None:
    """Whole or not there, also when the machine stops."""
    partial = layout.with_suffix(".part")
    shutil.rmtree(partial, ignore_errors=True)
    # zstd packs the Kubernetes binaries several times as fast as gzip; containerd reads it since 1.5
    podman("push", "--quiet", "--format=oci", "--compression-format=zstd", reference, f"oci:{partial}")
    for file in partial.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    partial.rename(layout)
