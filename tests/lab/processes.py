"""Runs a command and looks meanwhile at what all processes of the machine show of themselves."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .needles import Needles

LONGEST_SECONDS = 600.0
"""Most that the command may take."""
SAMPLE_SECONDS = 0.02
"""Between two looks."""


@dataclass
class Watched:
    """What was seen.

    Args:
        status: of the command.
        words: the command lines of the command and its children, in words, of paths the last part.
        elsewhere: the command lines of other processes.
        leaks: place to secrets.
        output: what the command printed.
    """

    status: int = -1
    words: set[str] = field(default_factory=set, repr=False)
    elsewhere: list[bytes] = field(default_factory=list, repr=False)
    leaks: dict[str, set[str]] = field(default_factory=dict)
    output: str = field(default="", repr=False)


def watched(command: Sequence[str], log: Path, needles: Needles, environments: Mapping[str, set[str]]) -> Watched:
    """Runs a command and looks for secrets in command lines and environments until it ends.

    Args:
        command: with its arguments.
        log: file for its output.
        needles: the secrets.
        environments: names of processes to the secrets that may stand in their environment.
    """
    seen = Watched()
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + LONGEST_SECONDS
        looked: dict[int, bytes] = {}
        try:
            while process.poll() is None and time.monotonic() < deadline:
                parents = parents_of_all()
                below = descendants(process.pid, parents)
                for pid in parents:
                    line = read(Path(f"/proc/{pid}/cmdline"))
                    if line and looked.get(pid) != line:
                        looked[pid] = line
                        _look_at(seen, pid, line, needles, environments, ours=pid in below)
                time.sleep(SAMPLE_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
            seen.status = process.wait(timeout=60)
    seen.output = log.read_text(errors="replace")
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


def descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    """Processes below one, and itself."""
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def parents_of_all() -> dict[int, int]:
    """Process to its parent, of all that run."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    return found


def read(file: Path) -> bytes:
    """A file's content; nothing where its process has ended meanwhile."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
