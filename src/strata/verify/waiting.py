"""States that come about after what a check did: read again until they are complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from strata.retry import wait_until

SETTLE_SECONDS = 120.0
"""In which a site on a loaded machine shows what changed: a restart, a record, a new pod."""
Read = TypeVar("Read")


def settled(
    read: Callable[[], Read],
    complete: Callable[[Read], bool] = bool,
    seconds: float = SETTLE_SECONDS,
    *,
    pause: float = 0.5,
) -> Read:
    """Reads until what is read is complete; an error counts as "not yet".

    Args:
        read: returns the state.
        complete: whether it is as expected.
        seconds: how long at most.
        pause: seconds between two reads.

    Returns:
        The last state, complete or not: the caller asserts, and so shows it.

    Raises:
        Exception: what `read` raises at the end.
    """
    last: list[Read] = []

    def waiting() -> str | None:
        last.clear()
        try:
            last.append(read())
        except Exception as error:  # whatever is in the way now may be gone in a moment
            return str(error)
        return None if complete(last[0]) else "the state"

    wait_until(waiting, seconds, pause=pause)
    return last[0] if last else read()
