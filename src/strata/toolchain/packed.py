"""Binaries as they go to hosts: compressed once in the cache, for every host of every site."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from strata.errors import UserError
from strata.paths import cache_directory
from strata.toolchain.cache import component_lock, file_digest

_LEVEL = 9
"""Of zstd; from 10 on Go's binaries shrink by some percent more in several times the time."""


def packed(binary: Path, sha256: str | None = None) -> tuple[Path, str]:
    """A binary compressed by zstd; compressed where that has not been done.

    Args:
        binary: the file as it is to be on hosts.
        sha256: of it, where that is known.

    Returns:
        the compressed file, and the SHA-256 of the binary itself.

    Raises:
        UserError: the binary cannot be read, or zstd failed.
    """
    try:
        digest = sha256 or file_digest(binary)
    except OSError as error:
        raise UserError(
            f"the binary {binary} cannot be read: {error.strerror}", fix="`strata doctor` says how the tool is built"
        ) from error
    file = cache_directory() / "packed" / f"{binary.name}-{digest[:24]}.zst"
    if file.exists():
        return file, digest
    with component_lock(f"packed-{binary.name}", lambda _: None) as staging:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            _compress(binary, staging / file.name)
            (staging / file.name).rename(file)
    return file, digest


def _compress(binary: Path, to: Path) -> None:
    """On disk when this returns, so that its final name never stands for half of it."""
    command = ["zstd", "--quiet", f"-{_LEVEL}", "--threads=0", str(binary), "-o", str(to)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise UserError("zstd is not installed", fix="apt-get install zstd") from error
    if done.returncode != 0:
        raise UserError(
            f"zstd could not compress {binary}: {done.stderr.strip()}", fix="see whether the cache's disk is full"
        )
    with to.open("rb") as stream:
        os.fsync(stream.fileno())
