"""Files on the disk as responses: ranges, and readers that hold a file until they end."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

PART = 256 * 1024
"""Bytes read at once."""
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class RangeNotSatisfiable(Exception):
    """A range that begins behind the end of the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte, and the one behind the last; None: all, also for several ranges and other units, as RFC 9110 allows.

    Args:
        header: `Range` of the request.
        size: of the file.

    Raises:
        RangeNotSatisfiable: it begins behind the end.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        if length == 0:
            raise RangeNotSatisfiable
        return size - length, size
    start, end = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < int(match[1]):
        return None
    if start >= size:
        raise RangeNotSatisfiable
    return start, end


class Content(Protocol):
    """Bytes of a file that is there, or still arrives."""

    size: int

    async def begin(self) -> None:
        """Waits until there is something to read."""

    def read(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`."""

    async def close(self) -> None:
        """Lets go of the file."""


async def read_file(descriptor: int, start: int, end: int) -> AsyncIterator[bytes]:
    """Parts of an open file."""
    while start < end:
        chunk = await asyncio.to_thread(os.pread, descriptor, min(PART, end - start), start)
        if not chunk:
            raise OSError(f"a file ends {end - start} bytes early")
        start += len(chunk)
        yield chunk


class StoredFile:
    """A file on the disk, open until it is closed.

    Args:
        path: of the file.
        closed: called once at the end.
    """

    def __init__(self, path: Path, closed: Callable[[], None] = lambda: None) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        self._closed = closed
        self.size = os.fstat(self._descriptor).st_size

    async def begin(self) -> None:
        """All is there."""

    def read(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`."""
        return read_file(self._descriptor, start, end)

    async def close(self) -> None:
        """Closes it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._closed()


class ContentResponse(StreamingResponse):
    """A response with bytes of a file, which lets go of it however it ends.

    Args:
        content: the file.
        start: first byte.
        end: behind the last byte.
        status: 200 or 206.
        headers: of the response.
        sent: called with the number of bytes of each part.
    """

    def __init__(
        self,
        content: Content,
        start: int,
        end: int,
        status: int,
        headers: dict[str, str],
        sent: Callable[[int], None],
    ) -> None:
        self._content = content
        super().__init__(self._parts(start, end, sent), status, headers, media_type="application/octet-stream")

    async def _parts(self, start: int, end: int, sent: Callable[[int], None]) -> AsyncIterator[bytes]:
        async for chunk in self._content.read(start, end):
            sent(len(chunk))
            yield chunk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._content.close()
