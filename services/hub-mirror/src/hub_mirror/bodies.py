"""JSON that callers send when they publish."""

from __future__ import annotations

import json
import re
from typing import Any, TypeGuard

from fastapi import Request

from hub_mirror.refusals import refusal

MOST_OBJECTS = 1000
"""Of a list in a request."""
SHA256 = r"[0-9a-f]{64}"


async def read_object(request: Request) -> dict[str, Any]:
    """The body.

    Raises:
        HTTPException: 400 for what is not a JSON object.
    """
    return parse_object(await request.body())


def parse_object(text: bytes) -> dict[str, Any]:
    """A text.

    Raises:
        HTTPException: 400 for what is not a JSON object.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(400, "the body is not JSON") from error
    if not isinstance(value, dict):
        raise refusal(400, "the body is not a JSON object")
    return value


def is_sha256(value: object) -> TypeGuard[str]:
    """Whether it is a SHA-256 in hexadecimal digits."""
    return isinstance(value, str) and re.fullmatch(SHA256, value) is not None


def is_size(value: object) -> TypeGuard[int]:
    """Whether it is a number of bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**50
