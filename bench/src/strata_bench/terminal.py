"""Progress and signals of the programs below bench/."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console


class Lines:
    """Progress on standard error: in a terminal one line, elsewhere a line for each text."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status = self._console.status("") if self._console.is_terminal else None
        if self._status:
            self._status.start()

    def update(self, text: str) -> None:
        """Shows `text`."""
        if self._status:
            self._status.update(text)
        else:
            self._console.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Removes the line from the terminal."""
        if self._status:
            self._status.stop()


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP end this process as an exception does: what it made is taken away again."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # as signal calls it
        for other in before:  # a second one must not stop the clearing up
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
