"""Responses of reading routes: the upstream's answers and refusals, files with ranges, files that only pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlencode

from fastapi import HTTPException, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hub_mirror.mirror import Mirror
from hub_mirror.names import Repository
from hub_mirror.reading import Content, ContentResponse, RangeNotSatisfiable, parse_range
from hub_mirror.refusals import ENTRY_NOT_FOUND, refusal, repository_not_found
from hub_mirror.upstream import Answer, FileStream, UpstreamUnavailable

PASSED = ("content-length", "content-range", "accept-ranges", "x-repo-commit", "x-linked-etag", "x-linked-size")
"""Headers of the upstream's response that clients get with a file that only passes."""


def json_response(value: Any, next_url: str = "") -> Response:
    """An answer of this hub's own.

    Args:
        value: of the body.
        next_url: of the next page.
    """
    return bytes_response(json.dumps(value, separators=(",", ":")).encode(), next_url)


def bytes_response(body: bytes, next_url: str = "") -> Response:
    """JSON as it is."""
    headers = {"Link": f'<{next_url}>; rel="next"'} if next_url else {}
    return Response(body, 200, headers, media_type="application/json")


def page_url(base: str, path: str, query: Sequence[tuple[str, str]]) -> str:
    """Of a page of this hub."""
    return f"{base}{path}?{urlencode(query)}"


def needs_token(answer: Answer) -> bool:
    """Whether a token of the Hub may get more: the refusal hides or protects a repository."""
    return answer.status in (401, 403, 404) and answer.error_code != ENTRY_NOT_FOUND


def refused(answer: Answer, what: str) -> HTTPException:
    """The upstream's refusal, for the caller.

    Args:
        answer: the refusal.
        what: was asked for.
    """
    text = answer.error_message or f"the upstream refuses {what} with status {answer.status}"
    status = answer.status if 400 <= answer.status < 500 else 502
    headers = {"X-Repo-Commit": answer.commit} if answer.commit else None
    return refusal(status, text if text.isprintable() else what, _word(answer.error_code), headers)


async def unavailable(mirror: Mirror, repository: Repository, error: UpstreamUnavailable) -> HTTPException:
    """For what the upstream alone could answer: a hub that never asks it does not know the repository."""
    if mirror.upstream.offline and not await mirror.files.knows(repository):
        return repository_not_found(repository.id, anonymous=False)
    return refusal(504, f"{error}, and this hub has no copy of what you ask for", headers={"Retry-After": "30"})


def file_headers(commit: str, etag: str, size: int, *, large: bool) -> dict[str, str]:
    """Of a file's response, as huggingface_hub reads them."""
    linked = {"X-Linked-ETag": f'"{etag}"', "X-Linked-Size": str(size)} if large else {}
    return {
        "ETag": f'"{etag}"',
        "X-Repo-Commit": commit,
        "Accept-Ranges": "bytes",
        # what members publish is not a page of this name
        "X-Content-Type-Options": "nosniff",
        **linked,
    }


def head_response(headers: dict[str, str], size: int) -> Response:
    """To HEAD."""
    return Response(status_code=200, headers={**headers, "Content-Length": str(size)})


async def file_response(
    request: Request, content: Content, headers: dict[str, str], sent: Callable[[int], None]
) -> Response:
    """To GET, with the range that the request names.

    Args:
        request: of the client.
        content: the file; it is closed with the response.
        headers: of file_headers.
        sent: called with the number of bytes of each part.
    """
    byte_range = request.headers.get("range")
    if request.headers.get("if-range", headers["ETag"]) != headers["ETag"]:
        byte_range = None
    try:
        part = parse_range(byte_range, content.size)
    except RangeNotSatisfiable:
        await content.close()
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{content.size}"})
    if request.headers.get("if-none-match") == headers["ETag"]:
        await content.close()
        return Response(status_code=304, headers=headers)
    start, end = part or (0, content.size)
    shown = {**headers, "Content-Length": str(end - start)}
    if part is not None:
        shown["Content-Range"] = f"bytes {start}-{end - 1}/{content.size}"
    return ContentResponse(content, start, end, 206 if part else 200, shown, sent)


class PassedResponse(StreamingResponse):
    """The upstream's response with a file, which is not stored.

    Args:
        stream: of the upstream.
        stack: closes it.
        sent: called with the number of bytes of each part.
    """

    def __init__(self, stream: FileStream, stack: AsyncExitStack, sent: Callable[[int], None]) -> None:
        self._stack = stack
        received = stream.headers
        headers = {name: received[name] for name in PASSED if name in received}
        headers["etag"] = received.get("x-linked-etag") or received.get("etag", "")
        headers["x-content-type-options"] = "nosniff"

        async def parts() -> Any:
            async for chunk in stream.response.aiter_raw():
                sent(len(chunk))
                yield chunk

        super().__init__(parts(), stream.status, headers, media_type="application/octet-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stack.aclose()


def _word(code: str | None) -> str:
    return code if code is not None and code.isalnum() and code.isascii() else ""
