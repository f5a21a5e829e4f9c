"""Folders as ZIP archives, made while they are sent."""

from __future__ import annotations

import os
import stat
import time
import zipfile
from collections.abc import Iterator
from typing import Any

from pods.folders import Held, Unsuitable, open_file, read, walk
from pods.paths import DEEPEST

MOST_ENTRIES = 10_000
_FIRST, _LAST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)


class _Sink:
    """What is written, until it is taken; it cannot be gone back in."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def check(start: int) -> None:
    """Before the answer begins: afterwards, an error can only break it off.

    Raises:
        Unsuitable: it has too much in it.
        PermissionError: something may not be read; names its path.
    """
    for number, entry in enumerate(walk(start)):
        if number >= MOST_ENTRIES:
            raise Unsuitable(f"it holds more than {MOST_ENTRIES} files and folders; read smaller folders")
        if not entry.readable and entry.path.count("/") >= DEEPEST:
            raise Unsuitable(f"it holds more than {DEEPEST} folders in each other; read smaller folders")
        if not entry.readable:
            raise PermissionError(entry.path)


def stream(held: Held) -> Iterator[bytes]:
    """The archive of a folder; links and what is not a regular file are left out."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:  # type: ignore[call-overload]
        for entry in walk(held.descriptor):
            mode = entry.state.st_mode
            name = printable(entry.path)
            if stat.S_ISDIR(mode):
                archive.writestr(zipfile.ZipInfo(f"{name}/", _date(entry.state.st_mtime)), b"")
            elif stat.S_ISREG(mode):
                descriptor = open_file(entry.parent, entry.name)
                try:
                    info = zipfile.ZipInfo(name, _date(entry.state.st_mtime))
                    info.compress_type = zipfile.ZIP_DEFLATED
                    with archive.open(info, "w", force_zip64=True) as target:
                        for chunk in read(descriptor):
                            target.write(chunk)
                            yield sink.take()
                finally:
                    os.close(descriptor)
            yield sink.take()
    yield sink.take()


def printable(name: str) -> str:
    """A name as UTF-8, in which pods need not write theirs."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _date(seconds: float) -> tuple[int, int, int, int, int, int]:
    try:
        fields = time.gmtime(seconds)[:6]
    except (OverflowError, OSError, ValueError):
        return _FIRST
    return min(max(fields, _FIRST), _LAST)
