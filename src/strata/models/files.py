"""Files that a site file names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from strata.models.types import SiteFile


def site_files(model: BaseModel) -> Iterator[SiteFile]:
    """The files that a model names, those of its sections included."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, SiteFile):
                yield one
            elif isinstance(one, BaseModel):
                yield from site_files(one)


def is_file(path: Path) -> bool:
    """Whether there is a file, for any text that a user may take for its path."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return False
