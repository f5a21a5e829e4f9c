"""Binaries as they go to hosts: compressed once in the cache, for every host of every site."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

from strata.errors import UserError
from strata.site.paths import cache_directory
from strata.toolchain.cache import component_lock, file_digest

_LEVEL = 6
"""Of zlib; 9 makes Go's binaries one percent smaller in three times the time."""


def packed(binary: Path, sha256: str | None = None) -> tuple[Path, str]:
    """A binary in gzip's format, which any host's Python reads; compressed where that has not been done.

    Args:
        binary: the file as it is to be on hosts.
        sha256: of it, where that is known.

    Returns:
        the compressed file, and the SHA-256 of the binary itself.

    Raises:
        UserError: the binary cannot be read, or the cache not be written.
    """
    try:
        digest = sha256 or file_digest(binary)
    except OSError as error:
        raise UserError(
            f"the binary {binary} cannot be read: {error.strerror}", fix="`strata doctor` shows how the tool is built"
        ) from error
    file = cache_directory() / "packed" / f"{binary.name}-{digest[:24]}.gz"
    if file.exists():
        return file, digest
    with component_lock(f"packed-{binary.name}", lambda _: None) as staging:
        if not file.exists():
            try:
                _compress(binary, staging / file.name)
                file.parent.mkdir(parents=True, exist_ok=True)
                (staging / file.name).rename(file)
            except OSError as error:
                raise UserError(
                    f"{binary} could not be compressed to {file}: {error.strerror}",
                    fix="see whether the cache's disk is full",
                ) from error
    return file, digest


def _compress(binary: Path, to: Path) -> None:
    """On disk when this returns, so that its final name never belongs to half of it."""
    with binary.open("rb") as source, to.open("wb") as stream:
        with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_LEVEL, mtime=0) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        stream.flush()
        os.fsync(stream.fileno())
