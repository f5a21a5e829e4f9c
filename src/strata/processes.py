"""Processes that a run starts, and what a killed run leaves of them: it would work on the site beside the next run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from strata.site.paths import SitePaths

MARK = "STRATA_RUN"
"""Environment variable of everything that a run starts for a while; its value is the site's state directory."""
GRACE_SECONDS = 10.0
STAYING = frozenset({"conmon"})
"""Belong to a container, which outlives the run that made it."""


def bind_to_parent(command: Sequence[str | Path]) -> list[str | Path]:
    """The command, so that it gets SIGTERM when this process is killed; what it started itself may run on."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "TERM"] if setpriv else []), *command]


def start_followed(
    command: Sequence[str | Path], directory: Path, environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Starts a command that ends when this process is killed, with its output and errors as one stream.

    Args:
        command: program and arguments.
        directory: where it runs.
        environment: all of it.
    """
    return subprocess.Popen(
        bind_to_parent(command),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def tagged(paths: SitePaths) -> Iterator[None]:
    """Marks the processes that are started meanwhile as parts of a run on the site."""
    before = os.environ.get(MARK)
    os.environ[MARK] = str(paths.root)
    try:
        yield
    finally:
        if before is None:
            del os.environ[MARK]
        else:
            os.environ[MARK] = before


def unmarked_environment() -> dict[str, str]:
    """The environment for what stays when the run has ended."""
    return {name: value for name, value in os.environ.items() if name != MARK}


def end_orphans(paths: SitePaths) -> list[str]:
    """Ends what is left of runs on the site; for the holder of its lock, which no other run can be.

    Returns:
        The programs that were ended; the first word of each command.
    """
    orphans = _find(paths)
    for pid in orphans:
        _signal(pid, signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS
    left = orphans
    while left and time.monotonic() < end:
        time.sleep(0.05)
        # those that ended may have left children of their own, which carry the mark too
        left = _find(paths)
    for pid in left:
        _signal(pid, signal.SIGKILL)
    return sorted(orphans.values())


def _find(paths: SitePaths) -> dict[int, str]:
    mark = f"{MARK}={paths.root}".encode()
    family = _ancestors()
    names = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) in family or mark not in (process / "environ").read_bytes().split(b"\0"):
                continue
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile, or another user's
        name = Path(command[0].decode(errors="replace")).name
        if name and name not in STAYING:  # a zombie has no command
            names[int(process.name)] = name
    return names


def _ancestors() -> set[int]:
    """This process and those that it comes from."""
    ancestors, pid = set[int](), os.getpid()
    while pid > 0 and pid not in ancestors:
        ancestors.add(pid)
        try:
            # the name in brackets may hold anything; the parent is the second field after it
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return ancestors


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
