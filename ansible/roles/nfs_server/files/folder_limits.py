"""Limits of the folders in exports: each folder is a project of its file system (ext4, XFS), with a quota.

Run as root by strata-folder-limits.service when a folder is created, and every minute for what its path unit missed.
Users write below the folders meanwhile: no symbolic link is followed, and nothing but directories and files is opened.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

KIBIBYTES_PER_FILE = 16
"""Of ext4, which has an inode for each 16 KiB: a folder of small files takes no more than its part of them."""
ARCHIVE = ".archive"
"""In an export: folders of users who have left, which keep their project and its limit."""
GET_ATTRIBUTES, SET_ATTRIBUTES = 0x801C581F, 0x401C5820
"""FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR of linux/fs.h."""
INHERIT = 0x200
"""FS_XFLAG_PROJINHERIT: what is created in a directory belongs to its project."""
_ATTRIBUTES = struct.Struct("=5I8x")
"""struct fsxattr: flags, size of an extent, number of extents, project, size of a copied extent."""
FINISHED = "trusted.strata.project"
"""Attribute of a folder: the project of everything in it. Missing, a run was interrupted before its end."""


@dataclass(frozen=True)
class Export:
    """A directory whose folders are limited.

    Args:
        path: of the directory.
        limit: of each folder, in KiB; 0: none.
    """

    path: Path
    limit: int


def read_project(descriptor: int) -> tuple[int, bool]:
    """The project of an open directory or file, and whether what is created in it inherits that.

    Raises:
        OSError: the file system has no projects.
    """
    flags, _, _, project, _ = _ATTRIBUTES.unpack(fcntl.ioctl(descriptor, GET_ATTRIBUTES, bytes(_ATTRIBUTES.size)))
    return project, bool(flags & INHERIT)


def set_project(descriptor: int, project: int, *, inherit: bool) -> None:
    """Gives an open directory or file its project.

    Raises:
        OSError: the file system has no projects.
    """
    attributes = fcntl.ioctl(descriptor, GET_ATTRIBUTES, bytes(_ATTRIBUTES.size))
    flags, extent, extents, _, copied = _ATTRIBUTES.unpack(attributes)
    flags = flags | INHERIT if inherit else flags & ~INHERIT
    fcntl.ioctl(descriptor, SET_ATTRIBUTES, _ATTRIBUTES.pack(flags, extent, extents, project, copied))


@contextmanager
def opened(name: str | Path, directory: int | None = None) -> Iterator[int]:
    """A descriptor of a directory or file, which is not a symbolic link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def folders(directory: Path) -> Iterator[Path]:
    """The folders of a directory without hidden ones."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return (directory / name for name in sorted(names) if not name.startswith("."))


def projects(exports: list[Export]) -> dict[Path, int]:
    """The project of each folder, archived ones included; 0: none. Folders that are gone meanwhile are left out."""
    by_folder = {}
    for export in exports:
        archive = export.path / ARCHIVE
        for folder in (*folders(export.path), *(folders(archive) if archive.is_dir() else ())):
            with suppress(FileNotFoundError), opened(folder) as descriptor:
                by_folder[folder] = read_project(descriptor)[0]
    return by_folder


def is_finished(folder: Path, project: int) -> bool:
    """Whether everything in a folder belongs to its project."""
    with opened(folder) as descriptor:
        try:
            finished = os.getxattr(descriptor, FINISHED)
        except OSError:  # it has no such attribute
            return False
        return read_project(descriptor) == (project, True) and finished == str(project).encode()


def assign(folder: Path, project: int) -> None:
    """Gives a folder and everything in it a project: the folder first, so that what is created then inherits it."""
    with opened(folder) as top:
        set_project(top, project, inherit=True)
        for _, _, files, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            set_project(descriptor, project, inherit=True)
            for name in files:
                _assign_file(name, descriptor, project)
        os.setxattr(top, FINISHED, str(project).encode())


def _assign_file(name: str, directory: int, project: int) -> None:
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return
        with opened(name, directory) as descriptor:
            set_project(descriptor, project, inherit=False)
    except OSError as error:
        # deleted, or replaced by a link or socket, because the directory was read
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            raise


def mount_point(path: Path) -> Path:
    """Where the file system of a directory is mounted."""
    return next(parent for parent in (path, *path.parents) if parent.is_mount())


def set_limits(export: Export, projects: list[int]) -> None:
    """Limits projects of an export's file system.

    Raises:
        CalledProcessError: the file system enforces no quotas of projects.
    """
    if projects:
        files = export.limit // KIBIBYTES_PER_FILE
        lines = "".join(f"{project} 0 {export.limit} 0 {files}\n" for project in projects)
        command = ["setquota", "--project", "--batch", str(mount_point(export.path))]
        subprocess.run(command, input=lines, text=True, check=True)


def apply(exports: list[Export], limit: Callable[[Export, list[int]], None] = set_limits) -> list[Path]:
    """Gives each folder of a limited export its project, and each project its limit.

    Args:
        exports: all that have a limit, and those that had one.
        limit: sets the limit of projects.

    Returns:
        folders that have a new project.

    Raises:
        OSError: a file system has no projects.
        CalledProcessError: as for `set_limits`.
    """
    known = projects(exports)
    last = max(known.values(), default=0)
    new = []
    for export in exports:
        limited = []
        for folder in (folder for folder in known if folder.parent == export.path):
            project = known[folder]
            with suppress(FileNotFoundError):  # moved or deleted since
                if export.limit and not (project and is_finished(folder, project)):
                    if not project:
                        last = project = last + 1
                    # before its content is read, so that it grows no further
                    limit(export, [project])
                    assign(folder, project)
                    new.append(folder)
            limited += [project] if project else []
        limit(export, limited)
    return new


def main(configuration: Path) -> int:
    """Applies the limits of a file, JSON: [{"path": …, "limit": …}]; prints the folders that are new."""
    try:
        with configuration.open() as file:
            # the role's run and the service's would give two folders the same project
            fcntl.flock(file, fcntl.LOCK_EX)
            exports = [Export(Path(entry["path"]), entry["limit"]) for entry in json.load(file)]
            for folder in apply([export for export in exports if export.path.is_dir()]):
                print(f"{folder}: limited")
    except OSError as error:
        print(
            f"folder limits: {error}; the file system needs quotas of projects (mount option prjquota)", file=sys.stderr
        )
        return 1
    except subprocess.CalledProcessError as error:
        print(f"folder limits: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
