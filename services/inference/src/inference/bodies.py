"""Bodies of requests: JSON objects of a bounded size."""

from __future__ import annotations

import json
from typing import Any

from fastapi import HTTPException, Request

Json = dict[str, Any]
NOT_AN_OBJECT = "the body must be a JSON object in UTF-8"


async def read_object(request: Request, limit: int) -> Json:
    """The body.

    Args:
        request: whatever its Content-Type, the body is JSON.
        limit: of its length, in bytes.

    Raises:
        HTTPException: 413 where it is longer, 400 where it is not a JSON object.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, f"the body is longer than {limit} bytes; send less text in one request")
    try:
        content = json.loads(bytes(body).decode())
    except (ValueError, RecursionError):
        raise HTTPException(400, NOT_AN_OBJECT) from None
    if not isinstance(content, dict):
        raise HTTPException(400, NOT_AN_OBJECT)
    return content


def written(body: Json) -> bytes:
    """The body of a request to a model server: what was read, and nothing that JSON libraries read differently.

    Raises:
        HTTPException: 400 where it holds a number that JSON has not, half of a surrogate pair, or too many levels.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise HTTPException(400, NOT_AN_OBJECT) from None


def printable(text: str) -> str:
    """A text of a caller in a message."""
    return text[:200].encode("ascii", "backslashreplace").decode()
