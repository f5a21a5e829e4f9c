"""Runs a command and measures it from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError

PROGRAMS = Path(sys.executable).parent

END_SECONDS = 30.0
"""How long a command may take to end after SIGTERM."""

LAUNCHER = """
import os, signal, sys, time
ends = (signal.SIGTERM, signal.SIGINT)
for number in ends:
    signal.signal(number, signal.SIG_IGN)
begin = time.monotonic()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, setsigdef=ends)
_, ended, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{time.monotonic() - begin} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(ended) & 255)
"""
"""Starts the command from a small process: the kernel counts the starter's memory as the command's own.

It outlives a signal to both, so that its end is the command's end.
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended: wall and processor time in seconds, the most memory it held at once in MiB."""

    seconds: float
    processor_seconds: float
    peak_mib: float


def measure(
    *command: str,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    status: Sequence[int] = (0,),
) -> Outcome:
    """Runs a command to its end; what it prints is thrown away. Interrupted, it ends the command first.

    Args:
        command: the program, one of ours by its name alone, and its arguments.
        environment: added to ours.
        directory: where it runs.
        status: how it may end.

    Raises:
        UserError: it ended otherwise; with the end of its output.
    """
    program = PROGRAMS / command[0]
    line = [str(program) if program.exists() else command[0], *command[1:]]
    with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile("r") as figures:
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, figures.name, *line],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=directory,
            start_new_session=True,
        ) as process:
            try:
                ended = process.wait()
            except BaseException:
                _end(process)
                raise
        if ended not in status:
            said.seek(0)
            text = said.read()[-1500:].decode(errors="replace")
            raise UserError(f"benchmark: `{' '.join(command)}` ended with {ended}: {text}")
        seconds, processor_seconds, kibibytes = figures.read().split()
    return Outcome(float(seconds), float(processor_seconds), float(kibibytes) / 1024)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the command, and with it the launcher that waits for it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            process.wait(END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue
