"""Published files of earlier releases, which were on the volume of the cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def relocate(storage: Path, published: Path) -> int:
    """Moves the files, each as a whole: an interrupted run is continued by the next one.

    Args:
        storage: directory of the cache, which had them in `published/`, and uploads in `uploads/`.
        published: directory of tenants' files.

    Returns:
        How many files were moved.

    Raises:
        OSError: one cannot be moved; it and those after it are where they were.
    """
    former, moved = storage / "published", 0
    for path in sorted(former.glob("*/*/*")):
        target = published / path.relative_to(former)
        target.parent.mkdir(parents=True, exist_ok=True)
        # the directories are on different file systems
        part = target.with_name(f".{target.name}")
        with path.open("rb") as source, part.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
        part.replace(target)
        path.unlink()
        moved += 1
    for rest in (former, storage / "uploads"):
        shutil.rmtree(rest, ignore_errors=True)
    return moved
