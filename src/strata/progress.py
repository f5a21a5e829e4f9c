"""Status messages of long work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives a line of text each time the work's current wait changes."""

    def update(self, text: str) -> None:
        """Shows `text`, replacing what was there before."""


class Silent:
    """Progress that is not shown."""

    def update(self, text: str) -> None:
        """Does nothing."""


@contextmanager
def elapsed(progress: Progress, what: str, detail: Callable[[], str] = str, interval: float = 1.0) -> Iterator[None]:
    """Reports for how long something has been running.

    Args:
        progress: receives status messages.
        what: is running.
        detail: what else is known of it by then, appended as it is.
        interval: seconds between two reports.
    """
    done = threading.Event()
    started = time.monotonic()

    def report() -> None:
        while not done.is_set():
            progress.update(f"{what}, {time.monotonic() - started:.0f} s{detail()}")
            done.wait(interval)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()
