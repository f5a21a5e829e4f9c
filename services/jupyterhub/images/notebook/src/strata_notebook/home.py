"""The home, whose space may be used up: kernels that start without it, and the text that JupyterLab shows then."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

LIMIT = "HOME_LIMIT"
"""Variable with the limit of a home, in bytes; the hub sets it at sites that have one."""
SAVED_BYTES = 4 << 20
"""Free space below which a home counts as full: a notebook with figures, and its checkpoint."""
IPYTHON = Path(".ipython/profile_default")
IPYTHON_FOLDERS = ("log", "pid", "security", "startup")
"""Of a profile; a kernel makes those that are missing, or does not start."""
MIGRATED = Path(".jupyter/migrated")
"""Where it is missing and IPython's directory is not, Jupyter's next start writes it, and ends if there is no space."""
IPYTHON_WITHOUT_SPACE = "/tmp/ipython"  # noqa: S108  # the container's own


def prepare_kernels(home: Path, environment: MutableMapping[str, str]) -> None:
    """Makes what starts need while there is space; without, kernels make IPython's directories in /tmp."""
    try:
        (home / MIGRATED.parent).mkdir(mode=0o700, exist_ok=True)
        (home / MIGRATED).touch()
        for name in IPYTHON_FOLDERS:
            (home / IPYTHON / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        environment.setdefault("IPYTHONDIR", IPYTHON_WITHOUT_SPACE)


def full(home: Path, limit: int) -> str | None:
    """What a user reads while nothing can be saved; None while there is space.

    Args:
        home: the directory.
        limit: of it, in bytes, which its file system shows as its size; 0: none.

    Raises:
        OSError: the file system does not respond.
    """
    status = os.statvfs(home)
    total, free = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
    own = 0 < total <= limit
    if free < SAVED_BYTES and own:
        return (
            f"Your home is full: {_size(total - free)} of {_size(total)} are used, the limit of this site. "
            "Delete files before you save or run more."
        )
    no_files = status.f_files > 0 and status.f_favail == 0
    # the file system shows what the limit leaves, not what its volume has
    if free < SAVED_BYTES or no_files or (own and not _accepts(home)):
        what = "files" if no_files else "space"
        return (
            f"The volume with the homes of all users has no {what} left. Delete files that you no longer need, "
            "and tell the operators of this site; until then, nothing can be saved."
        )
    return None


def _accepts(home: Path) -> bool:
    """Whether a block can be written."""
    try:
        with tempfile.NamedTemporaryFile(dir=home, prefix=".space-", buffering=0) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)
    return True


def _size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
