"""Attempts at what may do better in a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from strata.progress import Progress


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


def wait_until(
    waiting_for: Callable[[], str | None], seconds: float, progress: Progress | None = None, *, pause: float = 0.5
) -> str | None:
    """Polls until nothing is waited for any more.

    Args:
        waiting_for: None when done, else what is waited for.
        seconds: how long at most.
        progress: receives status messages.
        pause: seconds between two polls.

    Returns:
        None, or what was still waited for at the end.
    """
    end = time.monotonic() + seconds
    while (waiting := waiting_for()) is not None and time.monotonic() < end:
        if progress is not None:
            progress.update(f"waiting for {waiting}")
        time.sleep(pause)
    return waiting
