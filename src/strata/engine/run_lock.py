"""One run at a time per site, and one at a time of what concerns all sites of the machine."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from filelock import FileLock, Timeout

from strata.errors import UserError
from strata.models.state import SharedState
from strata.processes import end_orphans, tagged
from strata.shared_state.record import require_local
from strata.site.outputs import remove_partial
from strata.site.paths import SitePaths, make_private, state_directory


@contextmanager
def site_lock(paths: SitePaths, command: str, state: SharedState | None) -> Iterator[None]:
    """Holds the site for a command that changes it; the kernel lets go when the process ends, however it ends.

    What a killed run left running (Ansible, pulumi and their children) is ended first. Shared state is locked for
    other hosts too, downloaded, and saved at the end.

    Args:
        paths: the state directory.
        command: of strata, as others see it.
        state: where the state is according to the site file; None for the local directory.

    Raises:
        UserError: another run holds it; names its command, process id and start, or operator, host and start. Or the
            state is not where the site file has it.
    """
    with local_lock(paths, command):
        if ended := end_orphans(paths):
            names = ", ".join(dict.fromkeys(ended))
            print(f"ended what a killed run left: {len(ended)} processes ({names})", file=sys.stderr)
        remove_partial(paths.root)
        with _shared(paths, state, command), tagged(paths):
            yield


@contextmanager
def local_lock(paths: SitePaths, command: str) -> Iterator[None]:
    """Holds the state directory; for commands on the state itself.

    Raises:
        UserError: another run of this host holds it; names its command, process id and start.
    """
    paths.create()
    file = paths.root / "lock"
    lock = FileLock(file, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(
            f"{_named(file, paths)} is at work on this site",
            fix="wait until it has ended, or end that process",
            see="another-run-is-at-work",
        ) from None
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write_text(json.dumps({"command": command, "pid": os.getpid(), "since": since}))
        yield
        file.write_text("")
    finally:
        make_private(paths.root)
        lock.release()
        sys.stdout.flush()


def _shared(paths: SitePaths, state: SharedState | None, command: str) -> AbstractContextManager[None]:
    if state is None:
        require_local(paths)
        return nullcontext()
    from strata.shared_state.session import session  # noqa: PLC0415  # loads botocore

    return session(paths, state, command, _Lines())


class _Lines:
    """Progress as lines on standard error, for a wait before there is a display."""

    _last = ""

    def update(self, text: str) -> None:
        """Prints `text` unless it is the last one."""
        if text != self._last:
            print(text, file=sys.stderr, flush=True)
            self._last = text


def refresh(paths: SitePaths, state: SharedState | None) -> None:
    """Downloads the newest shared state for a command that only reads; a run on this host that is under way does it.

    Raises:
        UserError: the state is not where the site file has it, or cannot be downloaded.
    """
    if state is None:
        require_local(paths)
        return
    from strata.shared_state.working_copy import WorkingCopy  # noqa: PLC0415  # loads botocore

    lock = FileLock(paths.create().root / "lock", mode=0o600, blocking=False)
    try:
        with lock:
            WorkingCopy(paths, state).pull()
    except Timeout:
        return


def holder(paths: SitePaths) -> str | None:
    """The run that is at work on the site: command, process and start; None where there is none."""
    file = paths.root / "lock"
    if not file.exists():
        return None
    try:
        with FileLock(file, mode=0o600, blocking=False):
            return None
    except Timeout:
        return _named(file, paths)


def _named(file: Path, paths: SitePaths) -> str:
    try:
        held = json.loads(file.read_text(errors="replace"))
        return f"`strata {held['command']} {paths.site}` (process {held['pid']}, since {held['since']})"
    except (ValueError, KeyError, TypeError):
        return "another run"


@contextmanager
def machine_lock(name: str) -> Iterator[None]:
    """Waits for its turn among all runs of this user on this machine that take the lock of that name."""
    directory = state_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(directory / f".{name}.lock", mode=0o600):
        yield
