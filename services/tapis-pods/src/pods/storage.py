"""Where volumes and snapshots are: an export of the site's NFS server with a folder for each tenant.

Members of a tenant may reach its folder by Kubernetes too, so nothing below it is trusted: not even its own folders.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pods.folders import FOLDER_MODE, folder, names_in

PARTIAL = ".partial"
"""Folder of a tenant with what is not complete yet."""
REMOVED = ".removed"
"""Folder of the export whose content the NFS server deletes, whoever has written it."""
FOLDERS = {"volume": "volumes", "snapshot": "snapshots"}
"""Folder of a tenant by what it holds."""
STALE_SECONDS = 3600.0
"""After which an upload that has not written anything has ended with its process."""


def sub_path(kind: str, name: str, parts: tuple[str, ...] = ()) -> str:
    """Of a volume or snapshot, or what is in it, below the tenant's folder."""
    return "/".join((FOLDERS[kind], name, *parts))


@dataclass(frozen=True)
class Storage:
    """The export.

    Args:
        root: where it is mounted.
    """

    root: Path

    @contextmanager
    def open(self, tenant: str, *parts: str, create: bool = False) -> Iterator[int]:
        """Descriptor of a folder of a tenant.

        Raises:
            folders.Unsuitable, OSError: as folders.folder.
        """
        root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # the server makes the tenants' folders, because one that is missing is a fault
            with folder(root, (tenant,)) as own, folder(own, parts, create=create) as descriptor:
                yield descriptor
        finally:
            os.close(root)

    def create(self, tenant: str, name: str) -> None:
        """The folder of a new volume.

        Raises:
            FileExistsError: there are files.
        """
        with self.open(tenant, FOLDERS["volume"], name, create=True) as descriptor:
            if names_in(descriptor):
                raise FileExistsError(name)

    def remove(self, tenant: str, kind: str, name: str) -> None:
        """Gives the files of a volume or snapshot to the server, which deletes them; nothing where there are none.

        Raises:
            folders.Unsuitable, OSError: they are where they were.
        """
        # of a tenant that has never had one, there is no folder
        with self.open(tenant, FOLDERS[kind], create=True) as parent:
            self._discard(parent, name)

    @contextmanager
    def partial(self, tenant: str, purpose: str) -> Iterator[tuple[int, str]]:
        """Folder and new name for what gets its own name when it is complete; what is left there is removed."""
        name = f"{purpose}-{secrets.token_hex(8)}"
        with self.open(tenant, PARTIAL, create=True) as parent:
            try:
                yield parent, name
            finally:
                self._discard(parent, name)

    def tidy(self, tenant: str) -> None:
        """Removes what processes that have ended did not complete; of uploads, what has been idle for an hour."""
        with self.open(tenant, PARTIAL, create=True) as parent:
            for name in names_in(parent):
                with suppress(FileNotFoundError):
                    idle = time.time() - os.stat(name, dir_fd=parent, follow_symlinks=False).st_mtime
                    if not name.startswith("upload-") or idle > STALE_SECONDS:
                        self._discard(parent, name)

    def _discard(self, parent: int, name: str) -> None:
        removed = os.open(self.root / REMOVED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                # a folder that its owner may not write cannot be moved
                with suppress(NotADirectoryError, PermissionError), _path_only(parent, name) as descriptor:
                    Path(f"/proc/self/fd/{descriptor}").chmod(FOLDER_MODE)
                os.rename(name, secrets.token_hex(16), src_dir_fd=parent, dst_dir_fd=removed)
        finally:
            os.close(removed)


@contextmanager
def _path_only(parent: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
