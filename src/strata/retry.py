"""Attempts at what may do better in a moment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence


def attempts(pauses: Sequence[float]) -> Iterator[bool]:
    """For a loop that is left by success: one attempt, and one more after each pause.

    Args:
        pauses: seconds between the attempts.

    Yields:
        Whether the attempt is the last.
    """
    for pause in pauses:
        yield False
        time.sleep(pause)
    yield True
