"""Where images of a fresh cloud are kept on this machine, and what glance gets of them."""

from __future__ import annotations

from pathlib import Path

from strata.models.compute import Image
from strata.provider.base import CHECKSUM, ImageUpload
from strata.site.paths import cache_directory


def downloaded_file(image: Image) -> Path:
    """Where an image with a url is downloaded to; its name follows from the image's checksum."""
    return cache_directory() / "images" / f"cloud-{str(image.checksum)[:16]}.{image.disk_format}"


def upload(image: Image) -> ImageUpload | None:
    """What glance gets; None for an image that it has."""
    if image.url is None:
        return None
    properties = {
        CHECKSUM: str(image.checksum),
        "os_distro": image.distribution,
        "os_version": image.release,
    }
    return ImageUpload(str(downloaded_file(image)), properties, image.disk_format)
