"""Cached files on the disk, by what the upstream names their content: bounded, the least recently used leaves first."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from hub_mirror.counts import Counts
from hub_mirror.reading import Content, StoredFile
from hub_mirror.transfers import GIT, SHA256, BrokenTransfer, Open, Transfer

TOUCH_SECONDS = 60
"""Between two times that a file's use is written to the disk."""

log = structlog.get_logger(__name__)


@dataclass
class _Blob:
    size: int
    used_at: float
    readers: int = 0


def blob_key(etag: str, *where: str) -> str:
    """Name of a file on the disk.

    Args:
        etag: of the upstream; content that it names is one file, wherever it is.
        where: repository, commit and path, which identify files whose ETag does not name the content.
    """
    named = len(etag) in (SHA256, GIT) and set(etag) <= set("0123456789abcdef")
    return etag if named else "n" + hashlib.sha256("\0".join((*where, etag)).encode()).hexdigest()


class BlobStore:
    """The cache. One process uses a directory at a time.

    Args:
        directory: of the files; those that are there belong to the cache.
        limit: most bytes of all files, those that arrive included.
        counts: metrics.
    """

    def __init__(self, directory: Path, limit: int, counts: Counts) -> None:
        self._files, self._parts = directory / "blobs", directory / "partial"
        self._limit, self._counts = limit, counts
        self._known: dict[str, _Blob] = {}
        self._transfers: dict[str, tuple[Transfer, asyncio.Task[None]]] = {}
        self._left: dict[str, int] = {}
        for path in (self._files, self._parts):
            path.mkdir(parents=True, exist_ok=True)
        self._scan()
        self._make_room(0)
        counts.watch(lambda: self.used, limit)

    @property
    def used(self) -> int:
        """Bytes of all files, of those that arrive, and of parts of those that broke off."""
        arriving = sum(transfer.size for transfer, _ in self._transfers.values())
        return sum(b.size for b in self._known.values()) + arriving + sum(self._left.values())

    def has(self, key: str) -> bool:
        """Whether the whole file is there."""
        return key in self._known

    def open(self, key: str, etag: str, size: int, source: Open) -> tuple[Content, bool] | None:
        """A file, and whether it or its transfer was there; None: there is no room for it.

        Args:
            key: of blob_key.
            etag: of the upstream.
            size: bytes.
            source: opens the upstream's file.
        """
        if (blob := self._known.get(key)) is not None:
            if (stored := self._open_stored(key, blob)) is not None:
                return stored, True
            del self._known[key]
        if (running := self._transfers.get(key)) is not None:
            running[0].readers += 1
            return running[0], True
        part = self._parts / key
        self._left.pop(key, None)
        if not self._make_room(size):
            part.unlink(missing_ok=True)
            return None
        transfer = Transfer(etag, size, part, self._path(key), source, self._counts.fetched.inc)
        transfer.readers = 1
        self._transfers[key] = transfer, asyncio.create_task(self._run(key, transfer))
        return transfer, False

    async def close(self) -> None:
        """Ends all transfers; what has arrived stays for the next process."""
        tasks = [task for _, task in self._transfers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _path(self, key: str) -> Path:
        return self._files / key[:2] / key

    def _open_stored(self, key: str, blob: _Blob) -> StoredFile | None:
        """None: it was deleted outside of the service."""

        def closed() -> None:
            blob.readers -= 1

        try:
            stored = StoredFile(self._path(key), closed)
        except OSError as error:
            log.warning("cached file is gone", key=key, reason=str(error))
            return None
        blob.readers += 1
        now = time.time()
        if now - blob.used_at > TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(self._path(key), (now, now))
        blob.used_at = now
        return stored

    async def _run(self, key: str, transfer: Transfer) -> None:
        try:
            await transfer.run()
            self._known[key] = _Blob(transfer.size, time.time())
        except (BrokenTransfer, OSError) as error:
            self._counts.broken.inc()
            log.warning("transfer failed", key=key, reason=str(error))
        finally:
            del self._transfers[key]
            if (part := self._parts / key).exists():
                self._left[key] = part.stat().st_size

    def _make_room(self, size: int) -> bool:
        """Deletes what broke off, then what was used least recently, until there is room; never what is being read."""
        free = sorted((b.used_at, key) for key, b in self._known.items() if b.readers == 0)
        used = self.used
        leaves = sum(self._known[key].size for _, key in free) + sum(self._left.values())
        if used + size - leaves > self._limit:
            return False
        while self._left and used + size > self._limit:
            key, left = self._left.popitem()
            (self._parts / key).unlink(missing_ok=True)
            used -= left
        for _, key in free:
            if used + size <= self._limit:
                break
            self._path(key).unlink(missing_ok=True)
            freed = self._known.pop(key).size
            used -= freed
            self._counts.evicted.inc(freed)
        return True

    def _scan(self) -> None:
        """Finds the files and parts that are there."""
        for path in self._files.glob("*/*"):
            status = path.stat()
            self._known[path.name] = _Blob(status.st_size, status.st_mtime)
        for path in self._parts.iterdir():
            self._left[path.name] = path.stat().st_size
