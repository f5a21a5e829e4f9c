"""Paths in volumes, as users write them."""

from __future__ import annotations

LONGEST_PATH = 1024
LONGEST_NAME = 255
DEEPEST = 64


def parts_of(path: str) -> tuple[str, ...]:
    """The names of a path's folders and its file, from the volume's root; () for the root.

    Raises:
        ValueError: it leaves the volume, or is not a path that a file system can hold.
    """
    if "\0" in path:
        raise ValueError("holds a NUL character")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair") from None
    if len(encoded) > LONGEST_PATH:
        raise ValueError(f"is longer than {LONGEST_PATH} bytes")
    if path.startswith("/") and path != "/":
        raise ValueError("must be relative to the volume: leave the / at its start out")
    parts = tuple(part for part in path.split("/") if part)
    if {".", ".."} & set(parts):
        raise ValueError("must not hold . or ..")
    if len(parts) > DEEPEST:
        raise ValueError(f"has more than {DEEPEST} parts")
    if any(len(part.encode()) > LONGEST_NAME for part in parts):
        raise ValueError(f"has a name longer than {LONGEST_NAME} bytes")
    return parts
