"""`strata status --watch`: a report that refreshes."""

from __future__ import annotations

import concurrent.futures
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from strata.report.model import SiteReport
from strata.report.terminal import frame

TICK_SECONDS = 0.2
"""How often a key is looked for."""


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Gives a function that waits up to some seconds for a key; "" where none came or there is no keyboard."""
    if not sys.stdin.isatty():

        def pause(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield pause
        return

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def wait(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(descriptor)  # Ctrl-C still interrupts
        yield wait
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def watch(look: Callable[[], SiteReport], *, interval: float, frames: int | None = None) -> SiteReport | None:
    """Shows the report until q, Ctrl-C, or so many frames.

    In a terminal the screen is redrawn; elsewhere each frame is printed below the last, one per interval.

    Args:
        look: builds the report; may take seconds.
        interval: seconds between the beginnings of two looks.
        frames: number of reports; None for no limit.

    Returns:
        The last report, None if the user quit before the first.
    """
    console = Console()
    last: SiteReport | None = None
    try:
        if console.is_terminal:
            return _redraw(console, look, interval, frames)
        shown = 0
        while frames is None or shown < frames:
            begin = time.monotonic()
            last = look()
            console.print(frame(last), "\n", soft_wrap=False)
            sys.stdout.flush()
            shown += 1
            if frames is None or shown < frames:
                time.sleep(max(0.0, begin + interval - time.monotonic()))
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # who read the pipe has gone; Python must not complain once more when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return last


def _redraw(console: Console, look: Callable[[], SiteReport], interval: float, frames: int | None) -> SiteReport | None:
    last: SiteReport | None = None
    shown = 0
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)

    def screen() -> RenderableType:
        footer = Text("querying the site" if future is not None else f"every {interval:g} s", "dim")
        footer.append("   q quits", "dim")
        return Group(footer, frame(last)) if last else footer

    future: concurrent.futures.Future[SiteReport] | None = None
    begin = time.monotonic() - interval
    # a flag and not an exception, which could come where it is not caught, or between a look's start and its note
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        # a screen of its own, so that the terminal's content is back afterwards
        with _keys() as key, Live(console=console, screen=True, get_renderable=screen, auto_refresh=False) as live:
            while True:
                if future is None and time.monotonic() - begin >= interval:
                    begin, future = time.monotonic(), pool.submit(look)
                if future is not None and future.done():
                    last, future = future.result(), None
                    shown += 1
                live.refresh()
                if frames is not None and shown >= frames:
                    break
                if key(TICK_SECONDS) in ("q", "Q") or interrupted.is_set():
                    break
    finally:
        signal.signal(signal.SIGINT, before)
    if future is not None:
        # Python would wait at its end for a look that hangs on a host; it changes nothing, so it may end at once
        sys.stdout.flush()
        os._exit(0)
    if last is not None and frames is not None and shown >= frames:
        console.print(frame(last))
    return last
