"""Waiting in tests for what comes true by itself."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import requests

START_SECONDS = 180.0
"""In which a process answers its first request, on a loaded machine."""


def eventually(
    what: Callable[[], object],
    seconds: float,
    text: str,
    *,
    pause: float = 0.3,
    hopeless: Callable[[], str | None] = lambda: None,
) -> float:
    """Asks repeatedly until the answer is true. An error counts as "not yet".

    Args:
        what: asked.
        seconds: how long at most.
        text: what is waited for, in the words of the failure.
        pause: seconds between two questions.
        hopeless: why it can no longer come true, if so.

    Returns:
        After how many seconds it was so.

    Raises:
        AssertionError: it never was.
    """
    begin, last = time.monotonic(), ""
    while True:
        try:
            answer = what()
            if answer:
                return time.monotonic() - begin
            last = f"; last seen: {answer!r}"[:600]
        except Exception as error:  # whatever is in the way now may be gone in a moment
            last = f": {type(error).__name__}: {error}"[:600]
        if reason := hopeless():
            raise AssertionError(f"{text}: {reason}{last}")
        if time.monotonic() - begin >= seconds:
            load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
            raise AssertionError(f"not within {seconds:.0f} s ({load}): {text}{last}")
        time.sleep(pause)


def responds(
    url: str, process: subprocess.Popen[bytes] | None = None, log: Path | None = None, *, seconds: float = START_SECONDS
) -> None:
    """Returns when a server answers a GET with a status below 400.

    Args:
        url: asked.
        process: the server's; once it has ended, nobody waits.
        log: its output, for the failure.
        seconds: how long at most.

    Raises:
        AssertionError: it does not, or the process has ended.
    """

    def output() -> str:
        return f"\n{log.read_text(errors='replace')[-4000:]}" if log is not None else ""

    def ended() -> str | None:
        status = process.poll() if process is not None else None
        return None if status is None else f"the process ended with {status}"

    try:
        eventually(lambda: requests.get(url, timeout=60).ok, seconds, f"{url} answers", pause=0.1, hopeless=ended)
    except AssertionError as error:
        raise AssertionError(f"{error}{output()}") from None
