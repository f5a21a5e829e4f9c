"""Runs a command and looks meanwhile at what all processes of the machine show of themselves."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .needles import Needles

LONGEST_SECONDS = 1200.0
"""Most that the command may take."""
SAMPLE_SECONDS = 0.02
"""Between two looks."""
YOUNG_SECONDS = 3.0
"""In which a process becomes another program, if it does."""
SETTLED_SECONDS = 1.0
"""Between two looks at an older one: a look at all takes most of a processor."""


@dataclass
class Watched:
    """What was seen.

    Args:
        status: of the command.
        words: the command lines of the command and its children, in words, of paths the last part.
        elsewhere: the command lines of other processes.
        leaks: place to secrets.
        output: what the command printed.
        errors: what it printed to standard error.
    """

    status: int = -1
    words: set[str] = field(default_factory=set, repr=False)
    elsewhere: list[bytes] = field(default_factory=list, repr=False)
    leaks: dict[str, set[str]] = field(default_factory=dict)
    output: str = field(default="", repr=False)
    errors: str = field(default="", repr=False)


@dataclass
class _Look:
    """At one process: when it was seen first and last, and its command line then."""

    first: float
    last: float = 0.0
    line: bytes = field(default=b"", repr=False)


def watched(command: Sequence[str], log: Path, needles: Needles, environments: Mapping[str, set[str]]) -> Watched:
    """Runs a command and looks for secrets in command lines and environments until it ends.

    Args:
        command: with its arguments.
        log: file for its output; beside it, with the suffix `.errors`, one for standard error.
        needles: the secrets.
        environments: names of processes to the secrets that may be in their environment.
    """
    seen = Watched()
    error_log = log.with_suffix(".errors")
    with log.open("wb") as stream, error_log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=errors)
        deadline = time.monotonic() + LONGEST_SECONDS
        looks: dict[int, _Look] = {}
        below = {process.pid}
        try:
            while process.poll() is None and time.monotonic() < deadline:
                now = time.monotonic()
                running = {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()}
                looks = {pid: look for pid, look in looks.items() if pid in running}  # a number may come again
                below &= running
                for pid in sorted(running):
                    look = looks.get(pid)
                    if look is None:
                        look = looks[pid] = _Look(now)
                        below |= {pid} if parent(pid) in below else set()
                    elif now - look.first > YOUNG_SECONDS and now - look.last < SETTLED_SECONDS:
                        continue
                    look.last, line = now, read(Path(f"/proc/{pid}/cmdline"))
                    if line and line != look.line:
                        look.line = line
                        _look_at(seen, pid, line, needles, environments, ours=pid in below)
                time.sleep(SAMPLE_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
            seen.status = process.wait(timeout=60)
    seen.output, seen.errors = (file.read_text(errors="replace") for file in (log, error_log))
    return seen


def _look_at(
    seen: Watched, pid: int, line: bytes, needles: Needles, environments: Mapping[str, set[str]], *, ours: bool
) -> None:
    words = [Path(word.decode(errors="replace")).name for word in line.split(b"\0")]
    name = read(Path(f"/proc/{pid}/comm")).decode(errors="replace").strip()
    if names := needles.found(line):
        seen.leaks[f"command line of {words[0]}"] = names
    if names := needles.found(read(Path(f"/proc/{pid}/environ"))) - environments.get(name, set()):
        seen.leaks[f"environment of {words[0]}"] = names
    if ours:
        seen.words.update(words)
    else:
        seen.elsewhere.append(line)


def parent(pid: int) -> int:
    """A process's parent; 0 where it has ended meanwhile."""
    fields = read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def read(file: Path) -> bytes:
    """A file's content; nothing where its process has ended meanwhile."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
