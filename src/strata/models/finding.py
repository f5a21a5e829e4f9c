"""One broken relation between parts of a site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from strata.models.key_path import KeyPath


@dataclass(frozen=True)
class Finding:
    """An error between parts.

    Args:
        path: the key that should change.
        why: what is wrong.
        fix: what would be right.
        reads: sections in which a missing entry could have caused it; not reported while these have own errors.
        other: the key that this one conflicts with, whose line is reported.
    """

    path: KeyPath
    why: str
    fix: str
    reads: tuple[KeyPath, ...] = ()
    other: KeyPath = ()


def duplicates(entries: Iterable[tuple[str, KeyPath]]) -> Iterator[Finding]:
    """A finding for each value that an earlier entry has; each value comes with its key."""
    seen: dict[str, KeyPath] = {}
    for value, path in entries:
        if value in seen:
            yield Finding(path, f"duplicate: {value}", "another value, or remove this entry", other=seen[value])
        seen.setdefault(value, path)
