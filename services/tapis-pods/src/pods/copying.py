"""Copies of files, for snapshots."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from pods.folders import FILE_MODE, Unsuitable, folder, names_in, new_file, open_file, read, reason, write_all
from pods.paths import DEEPEST


class CopyFailed(Exception):
    """Something cannot be copied; the text names its path."""


def copy(source: int, parts: Sequence[str], target: int, to: Sequence[str]) -> int:
    """Copies a file or a folder with all in it; returns its bytes.

    Links stay links. FIFOs, sockets and devices hold no data, and are left out, as are files that vanish meanwhile.

    Args:
        source: descriptor of a folder.
        parts: path in it; () for all of it.
        target: descriptor of an empty folder.
        to: path in it of the copy; not empty where a file is copied.

    Raises:
        CopyFailed: something may not be read, or cannot be written.
    """
    path = "/".join(parts)
    try:
        with folder(source, parts[:-1]) as parent:
            if parts and not stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                with folder(target, to[:-1], create=True) as own:
                    return _copy_file(parent, parts[-1], own, to[-1])
        with folder(source, parts) as origin, folder(target, to, create=True) as own:
            return _copy_folder(origin, own, f"{path}/" if path else "", 0)
    except (OSError, Unsuitable) as error:
        raise CopyFailed(f"{path or 'the volume'}: {reason(error)}") from error


def _copy_folder(source: int, target: int, prefix: str, depth: int) -> int:
    if depth > DEEPEST:
        raise CopyFailed(f"{prefix}: more than {DEEPEST} folders in each other")
    total = 0
    for name in names_in(source):
        try:
            total += _copy_entry(source, name, target, prefix, depth)
        except FileNotFoundError:
            # a pod has removed it
            os.stat(".", dir_fd=target)
        except (OSError, Unsuitable) as error:
            raise CopyFailed(f"{prefix}{name}: {reason(error)}") from error
    return total


def _copy_entry(source: int, name: str, target: int, prefix: str, depth: int) -> int:
    mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        with folder(source, (name,)) as below, folder(target, (name,), create=True) as own:
            return _copy_folder(below, own, f"{prefix}{name}/", depth + 1)
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        return 0
    return _copy_file(source, name, target, name) if stat.S_ISREG(mode) else 0


def _copy_file(source: int, name: str, target: int, new_name: str) -> int:
    descriptor = open_file(source, name)
    try:
        copied = new_file(target, new_name)
        try:
            written = 0
            for chunk in read(descriptor):
                written += write_all(copied, chunk)
            # pods of any user read it, and run what could be run
            if os.fstat(descriptor).st_mode & 0o111:
                os.fchmod(copied, FILE_MODE | 0o110)
            os.fsync(copied)
            return written
        finally:
            os.close(copied)
    finally:
        os.close(descriptor)
