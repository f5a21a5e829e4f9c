"""One broken relation between parts of a site."""

from __future__ import annotations

from dataclasses import dataclass

from strata.models.yaml_events import KeyPath


@dataclass(frozen=True)
class Finding:
    """A mistake between parts.

    Args:
        path: the key that should change.
        why: what is wrong.
        fix: what would be right.
        reads: sections in which a missing entry could have caused it; not told while these have mistakes of their own.
    """

    path: KeyPath
    why: str
    fix: str
    reads: tuple[KeyPath, ...] = ()
