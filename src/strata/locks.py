"""Locks between processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from strata.progress import Progress


@contextmanager
def file_lock(file: Path, progress: Progress, waits_for: str) -> Iterator[None]:
    """Holds a file's lock.

    Args:
        file: is created where it does not exist.
        progress: receives status messages.
        waits_for: "another process to …".
    """
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress.update(f"waiting for {waits_for}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
