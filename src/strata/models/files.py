"""Files that a site file names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.types import SiteFile

MAXIMUM_PEM = 2**20
"""Characters of a PEM file that are read; a ConfigMap, where it goes, holds no more."""
PEM_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
PEM_PRIVATE_KEY = "PRIVATE KEY-----"


def site_files(model: BaseModel) -> Iterator[SiteFile]:
    """The files that a model names, those of its sections included."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, SiteFile):
                yield item
            elif isinstance(item, BaseModel):
                yield from site_files(item)


def is_file(path: Path) -> bool:
    """Whether there is a file, for any text that a user may take for its path."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return False


def certificates_file(path: KeyPath, file: Path) -> Iterator[Finding]:
    """The file is there, and holds certificates and no key."""
    fix = "the path of a PEM file with certificates, relative to the site file"
    if not is_file(file):
        yield Finding(path, f"there is no file {file}", fix)
    elif (text := _text(file)) is None or PEM_CERTIFICATE not in text:
        yield Finding(path, f"{file} holds no certificate in PEM form", fix)
    elif PEM_PRIVATE_KEY in text:
        yield Finding(path, f"{file} holds a private key, which would be public", "only the certificates")


def _text(file: Path) -> str | None:
    """The beginning of a file, None where it is not text."""
    try:
        with file.open(encoding="ascii") as stream:
            return stream.read(MAXIMUM_PEM)
    except (OSError, ValueError):
        return None
