"""Files in volumes, reached by descriptors from folder to folder, so that no link that a pod made leads elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from pods.paths import DEEPEST

FOLDER_MODE, FILE_MODE = 0o2770, 0o660
"""What pods make in a folder is of its group too."""
UMASK = 0o007
"""Of the process: others than the volumes' group need no access."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unsuitable(Exception):
    """What is there cannot be used; the message gives the reason."""


class Held:
    """A descriptor that is closed when nothing refers to it any more: an answer may be given up before it begins."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


@contextmanager
def folder(start: int, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Descriptor of a folder below another one.

    Args:
        start: descriptor.
        parts: names, checked by paths.parts_of.
        create: make what is missing.

    Raises:
        Unsuitable: a part is a link or no folder.
        OSError: it is missing, or may not be read.
    """
    current = os.dup(start)
    try:
        for part in parts:
            made = create and _made(current, part)
            try:
                following = os.open(part, _FOLDER, dir_fd=current)
            except NotADirectoryError:
                raise Unsuitable(f"{part} is a file or a link; links are not followed") from None
            os.close(current)
            current = following
            if made:
                # mkdir does not take all of it
                os.fchmod(current, FOLDER_MODE)
        yield current
    finally:
        os.close(current)


def _made(parent: int, name: str) -> bool:
    with suppress(FileExistsError):
        os.mkdir(name, FOLDER_MODE, dir_fd=parent)
        return True
    return False


def names_in(descriptor: int) -> list[str]:
    """Of all that is in a folder."""
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries]


def open_file(parent: int, name: str) -> int:
    """Descriptor of a file that can be read; the caller closes it.

    Raises:
        Unsuitable: it is a link, a folder or no file at all, such as a FIFO, which is not even opened.
        OSError: it is missing, or may not be read.
    """
    _check(name, os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    descriptor = os.open(name, _FILE, dir_fd=parent)
    try:
        # another one may have taken its place
        _check(name, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise Unsuitable(f"{name} is a folder; ?zip=true reads a folder as a whole")
    if stat.S_ISLNK(mode):
        raise Unsuitable(f"{name} is a link; links are not followed")
    if not stat.S_ISREG(mode):
        raise Unsuitable(f"{name} is not a regular file")


def new_file(parent: int, name: str) -> int:
    """Descriptor of a new file; the caller closes it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, FILE_MODE, dir_fd=parent)


def write_all(descriptor: int, content: bytes) -> int:
    """Writes; returns the number of bytes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return len(content)


def reason(error: OSError | Unsuitable) -> str:
    """Why, in words."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)


@dataclass(frozen=True)
class Entry:
    """Something in a volume.

    Args:
        path: from where the walk began.
        parent: descriptor of its folder, which is open until the next entry.
        name: in the folder.
        state: of itself; a link is not followed.
        readable: whether it is read: not what is kept from this process, nor folders that are too deep.
    """

    path: str
    parent: int
    name: str
    state: os.stat_result
    readable: bool


def walk(start: int, prefix: str = "", depth: int = 0, most: int = 100_000) -> Iterator[Entry]:
    """All below a folder, each folder before what is in it; what vanishes meanwhile is left out.

    Args:
        start: descriptor.
        prefix: of the paths.
        depth: of the folder; at DEEPEST, those in it are not read.
        most: entries that are read of one folder.
    """
    with os.scandir(start) as entries:
        names = sorted(entry.name for entry in islice(entries, most))
    for name in names:
        try:
            state = os.stat(name, dir_fd=start, follow_symlinks=False)
        except FileNotFoundError:
            continue
        path = f"{prefix}{name}"
        is_folder = stat.S_ISDIR(state.st_mode)
        needed = os.R_OK | os.X_OK if is_folder else os.R_OK
        looked_at = is_folder or stat.S_ISREG(state.st_mode)
        readable = not looked_at or os.access(name, needed, dir_fd=start)
        readable = readable and not (is_folder and depth >= DEEPEST)
        yield Entry(path, start, name, state, readable)
        if is_folder and readable:
            with suppress(FileNotFoundError, Unsuitable), folder(start, (name,)) as below:
                yield from walk(below, f"{path}/", depth + 1, most)


def read(descriptor: int, most: int | None = None) -> Iterator[bytes]:
    """The file's content, as long as it was at first where `most` is None: one that grows must come to an end."""
    left = os.fstat(descriptor).st_size if most is None else most
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 18))):
        left -= len(chunk)
        yield chunk
