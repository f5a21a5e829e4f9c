"""Runs of `up` that are killed, and what they leave running."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from strata.processes import MARK
from strata.site.context import SiteContext

from .commands import strata_line

KILL_SECONDS = 600
"""Until a run comes to the point where it is to be killed."""


def kill_at(context: SiteContext, point: str) -> None:
    """Starts `strata up` and kills it, without its children, when a line of its output matches.

    Raises:
        AssertionError: the run ended, or took too long, without such a line.
    """
    seen: list[str] = []
    begin = time.monotonic()
    with subprocess.Popen(
        strata_line(context, "up", "--no-verify", "--verbose"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        try:
            for line in run.stderr:
                seen.append(line)
                if re.search(point, line):
                    return
                assert time.monotonic() - begin < KILL_SECONDS, f"{point} not reached:\n{''.join(seen[-20:])}"
            pytest.fail(f"the run ended before {point}:\n{''.join(seen[-20:])}")
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()


def workers(context: SiteContext) -> list[int]:
    """Processes that a run on the site has started and that still work."""
    mark = f"{MARK}={context.paths.root}".encode()
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0") and (process / "cmdline").read_bytes():
                pids.append(int(process.name))
        except OSError:
            continue
    return pids
