"""One run at a time per site, and one at a time of what concerns all sites of the machine."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from strata.errors import UserError
from strata.processes import end_orphans, marked
from strata.site.outputs import remove_partial
from strata.site.paths import SitePaths, make_private, state_directory


@contextmanager
def site_lock(paths: SitePaths, command: str) -> Iterator[None]:
    """Holds the site for a command that changes it; the kernel lets go when the process ends, however it ends.

    What a killed run left running (Ansible, pulumi and their children) is ended first.

    Raises:
        UserError: another run holds it; names its command, process id and start.
    """
    paths.create()
    file = paths.root / "lock"
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{_named(descriptor, paths)} is at work on this site",
                fix="wait until it has ended, or end that process",
            ) from None
        os.ftruncate(descriptor, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.pwrite(descriptor, json.dumps({"command": command, "pid": os.getpid(), "since": since}).encode(), 0)
        if ended := end_orphans(paths):
            names = ", ".join(dict.fromkeys(ended))
            print(f"ended what a killed run left: {len(ended)} processes ({names})", file=sys.stderr)
        remove_partial(paths.root)
        with marked(paths):
            yield
        os.ftruncate(descriptor, 0)
    finally:
        make_private(paths.root)
        os.close(descriptor)
        sys.stdout.flush()


def holder(paths: SitePaths) -> str | None:
    """The run that is at work on the site: command, process and start; None where there is none."""
    try:
        descriptor = os.open(paths.root / "lock", os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(descriptor, paths)
    finally:
        os.close(descriptor)
    return None


def _named(descriptor: int, paths: SitePaths) -> str:
    try:
        held = json.loads(os.pread(descriptor, 4096, 0).decode(errors="replace"))
        return f"`strata {held['command']} {paths.site}` (process {held['pid']}, since {held['since']})"
    except (ValueError, KeyError, TypeError):
        return "another run"


@contextmanager
def machine_lock(name: str) -> Iterator[None]:
    """Waits for its turn among all runs of this user on this machine that take the lock of that name."""
    directory = state_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(directory / f".{name}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
