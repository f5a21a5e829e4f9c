"""One file on its way from the upstream to the disk, which any number of clients read as it arrives."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import structlog

from hub_mirror.reading import read_file
from hub_mirror.upstream import FileStream, RedirectRefused, UpstreamUnavailable

ATTEMPTS = 5
"""Without a byte in between."""
LONGEST_PAUSE = 10.0
SHA256, GIT = 64, 40
"""Characters of an ETag that names the content."""
PARTIAL_CONTENT = 206
SHORT = 2**20
"""Bytes of a file that is served once it is there."""

Open = Callable[[str], AbstractAsyncContextManager[FileStream]]
"""Opens the upstream's file at a range."""

log = structlog.get_logger(__name__)


class BrokenTransfer(Exception):
    """The upstream's file did not come as a whole; the message gives the reason."""


def digest_of(etag: str, size: int) -> hashlib._Hash | None:
    """What the bytes are checked by; None: the ETag does not name the content."""
    if len(etag) == SHA256:
        return hashlib.sha256()
    if len(etag) == GIT:
        # git's id of a blob
        return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    return None


class Transfer:
    """A file that arrives. It goes on without its readers, and ends with the file under its name, or without one.

    Args:
        etag: of the file.
        size: of the file.
        part: where the bytes go; what is there already is not fetched again.
        target: its name once it is whole.
        source: opens the upstream's file.
        received: called with the number of bytes of each part.
    """

    def __init__(
        self, etag: str, size: int, part: Path, target: Path, source: Open, received: Callable[[int], None]
    ) -> None:
        self.etag, self.size, self.target = etag, size, target
        self.readers = 0
        self._part, self._source, self._received = part, source, received
        self._have = 0
        self._whole = False
        self._error: Exception | None = None
        self._news = asyncio.Condition()
        self._descriptor = -1
        self._digest = digest_of(etag, size)

    async def run(self) -> None:
        """Fetches the file.

        Raises:
            BrokenTransfer: it did not come as a whole.
            OSError: it cannot be written.
        """
        try:
            await asyncio.to_thread(self._prepare)
            await self._fetch()
            await self._finish()
            self._whole = True
        except Exception as error:
            self._error = error
            raise
        finally:
            async with self._news:
                self._news.notify_all()
            await self._let_go()

    async def begin(self) -> None:
        """Waits for the first bytes, of a short file for all: what fails until then is an error and no broken file.

        Raises:
            BrokenTransfer: none come.
        """
        async with self._news:
            while not self._whole and self._error is None and (self._have == 0 or self.size <= SHORT):
                await self._news.wait()
        if self._error is not None and (self._have == 0 or self.size <= SHORT):
            raise BrokenTransfer(str(self._error))

    async def read(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, as they arrive. The last of the file comes once all are checked.

        Raises:
            BrokenTransfer: the rest does not come.
        """
        while start < end:
            async with self._news:
                while self._visible <= start and self._error is None:
                    await self._news.wait()
            if self._visible <= start:
                raise BrokenTransfer(f"the transfer ended early: {self._error}")
            stop = min(end, self._visible)
            async for chunk in read_file(self._descriptor, start, stop):
                yield chunk
            start = stop

    async def close(self) -> None:
        """One reader has ended."""
        self.readers -= 1
        await self._let_go()

    @property
    def _visible(self) -> int:
        return self._have if self._whole else min(self._have, self.size - 1)

    async def _let_go(self) -> None:
        if self.readers == 0 and (self._whole or self._error is not None) and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _prepare(self) -> None:
        """Opens the part, and counts what a process before this one has left."""
        self._part.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o640)
        left = os.fstat(self._descriptor).st_size
        if left > self.size or self._digest is None:
            os.ftruncate(self._descriptor, 0)
            left = 0
        offset = 0
        while self._digest is not None and offset < left and (chunk := os.pread(self._descriptor, 2**20, offset)):
            self._digest.update(chunk)
            offset += len(chunk)
        self._have = offset

    async def _fetch(self) -> None:
        failures = 0
        while self._have < self.size:
            before = self._have
            try:
                await self._fetch_rest()
            except UpstreamUnavailable as error:
                failures = 0 if self._have > before else failures + 1
                if failures >= ATTEMPTS or isinstance(error, RedirectRefused):
                    raise BrokenTransfer(str(error)) from error
                log.info("transfer broke off", have=self._have, size=self.size, reason=str(error))
                await asyncio.sleep(min(LONGEST_PAUSE, 0.2 * 2**failures))

    async def _fetch_rest(self) -> None:
        async with self._source(f"bytes={self._have}-" if self._have else "") as stream:
            if stream.answer is not None or stream.status not in (200, PARTIAL_CONTENT):
                raise BrokenTransfer(f"the upstream answers with status {stream.status}")
            skipped = self._have
            if stream.status == PARTIAL_CONTENT:
                if not stream.response.headers.get("content-range", "").startswith(f"bytes {self._have}-"):
                    raise BrokenTransfer("the upstream sends another range than it was asked for")
                skipped = 0
            async for chunk in stream.response.aiter_raw():
                fresh = chunk[skipped:]
                skipped = max(0, skipped - len(chunk))
                if not fresh:
                    continue
                if self._have + len(fresh) > self.size:
                    raise BrokenTransfer(f"the upstream sends more than {self.size} bytes")
                await asyncio.to_thread(self._write, fresh)
                self._received(len(fresh))
                async with self._news:
                    self._have += len(fresh)
                    self._news.notify_all()
        if self._have < self.size:
            raise UpstreamUnavailable(f"the upstream sent {self._have} of {self.size} bytes")

    def _write(self, chunk: bytes) -> None:
        written = 0
        while written < len(chunk):
            written += os.pwrite(self._descriptor, chunk[written:], self._have + written)
        if self._digest is not None:
            self._digest.update(chunk)

    async def _finish(self) -> None:
        if self._digest is not None and self._digest.hexdigest() != self.etag:
            await asyncio.to_thread(self._part.unlink)
            raise BrokenTransfer(f"the bytes are not those that the ETag {self.etag} names")
        await asyncio.to_thread(self._name)

    def _name(self) -> None:
        os.fsync(self._descriptor)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._part.replace(self.target)
