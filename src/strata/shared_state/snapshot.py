"""The files of a state directory as one archive, and back."""

from __future__ import annotations

import hashlib
import io
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from strata.errors import UserError
from strata.site.outputs import PARTIAL

IDENTITY = "shared.id"
LOCAL = {"logs", "conformance", "lock", ".secrets.lock", "verified.json", "shared.json", IDENTITY, ".incoming"}
"""Entries of the state directory that belong to one deployment host."""
SEEN = {"known_hosts", "known_instances"}
"""Shared, but not a change: commands that only read append to them."""
TRIES = 5


@dataclass(frozen=True)
class File:
    """One file of the state.

    Args:
        mode: permissions.
        content: bytes.
    """

    mode: int
    content: bytes


Files = Mapping[str, File]


def read_files(root: Path) -> Files:
    """Returns the shared files below a state directory by relative path.

    A run may be writing: reads until two passes agree.

    Raises:
        UserError: the files change all the time.
    """
    last = None
    for _ in range(TRIES):
        current = _read_once(root)
        if current == last:
            return current
        last = current
    raise UserError(f"{root}: the files change while they are read", fix="repeat the command")


def _read_once(root: Path) -> Files:
    files = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] in LOCAL or (name.parts[0] == "pulumi" and "locks" in name.parts):
            continue
        if name.name.startswith(".") and name.name.endswith(PARTIAL):
            continue
        try:
            if path.is_file():
                mode = stat.S_IMODE(path.stat().st_mode) & 0o700
                files[name.as_posix()] = File(mode, path.read_bytes())
        except FileNotFoundError:
            continue  # another pass follows
    return files


def digest(files: Files) -> str:
    """Returns a SHA-256 that changes with every change worth saving; empty for no files."""
    if not files:
        return ""
    total = hashlib.sha256()
    for name, file in sorted(files.items()):
        if name not in SEEN:
            total.update(f"{name}\0{file.mode:o}\0{hashlib.sha256(file.content).hexdigest()}\n".encode())
    return total.hexdigest()


def pack(files: Files) -> bytes:
    """Returns the files as a compressed tar archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = file.mode, len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))
    return stream.getvalue()


def unpack(content: bytes) -> Files:
    """Returns the files of an archive.

    Raises:
        UserError: it has anything but files below the state directory.
    """
    files = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:  # intact: age authenticates it
        for entry in archive:
            path = PurePosixPath(entry.name)
            stream = archive.extractfile(entry)
            if stream is None or path.is_absolute() or ".." in path.parts or path.parts[0] in LOCAL:
                raise UserError(
                    f"shared state: the snapshot has an entry {entry.name!r} that Strata does not write",
                    fix="find out who wrote to the bucket; an earlier version of the object may be intact",
                )
            files[entry.name] = File(entry.mode & 0o700, stream.read())
    return files


def write_files(root: Path, files: Files) -> None:
    """Makes the shared files of a state directory those given; interrupted, some are old and some new."""
    for name in _read_once(root).keys() - files.keys():
        (root / name).unlink(missing_ok=True)
    for name, file in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{path.name}{PARTIAL}")
        temporary.unlink(missing_ok=True)
        temporary.touch(mode=0o600)
        temporary.write_bytes(file.content)
        temporary.chmod(file.mode)
        temporary.replace(path)
