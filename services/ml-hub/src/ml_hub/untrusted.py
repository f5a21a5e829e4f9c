"""JSON of other servers, made harmless before it is stored and passed on."""

from __future__ import annotations

import json
import math
from typing import Any

DEEPEST = 40
"""Levels of lists and objects; deeper ones are left out."""


def read_json(content: bytes) -> Any:
    """The JSON as any client can read it: no NaN, no halves of surrogate pairs, no deeper than DEEPEST.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return _cleaned(json.loads(content), DEEPEST)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def read_text(content: bytes) -> str:
    """Text without the NUL characters and faulty bytes that it may hold."""
    return content.decode("utf-8", "replace").replace("\0", "")


def _cleaned(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, dict)) and depth == 0:
        return None
    if isinstance(value, list):
        return [_cleaned(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {_cleaned(key, 0): _cleaned(item, depth - 1) for key, item in value.items()}
    return value
