"""Waiting in tests for what comes true by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def eventually(what: Callable[[], object], seconds: float, text: str, *, pause: float = 0.3) -> float:
    """Asks again and again until the answer is true. An error counts as "not yet".

    Args:
        what: asked.
        seconds: how long at most.
        text: what is waited for, in the words of the failure.
        pause: seconds between two questions.

    Returns:
        After how many seconds it was so.

    Raises:
        AssertionError: it never was.
    """
    begin, last = time.monotonic(), ""
    while True:
        try:
            if what():
                return time.monotonic() - begin
        except Exception as error:  # whatever is in the way now may be gone in a moment
            last = f": {error}"[:600]
        if time.monotonic() - begin >= seconds:
            load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
            raise AssertionError(f"not within {seconds:.0f} s ({load}): {text}{last}")
        time.sleep(pause)
