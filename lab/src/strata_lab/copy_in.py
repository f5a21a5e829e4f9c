"""Files into a container that does not run yet."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping
from pathlib import PurePosixPath

from strata.access.podman import podman

END_BYTES = 2 * tarfile.BLOCKSIZE
"""What ends an archive: two blocks of zeros."""


def copy_in(container: str, files: Mapping[str, str]) -> None:
    """Writes files and the directories above them, owned by root; under root/ they are root's alone to read.

    Args:
        container: its name.
        files: path below the container's root, without a leading slash, to content.

    Raises:
        PodmanError: podman refused.
    """
    podman("cp", "-a=false", "-", f"{container}:/", stdin=archive(files))


def archive(files: Mapping[str, str]) -> bytes:
    """The tar archive of `copy_in`, with nothing behind its end.

    podman's reader leaves at the end and not at the last byte; what tarfile pads an archive with may then meet a closed
    pipe and fail the whole copy (buildah issue 6573).
    """
    buffer = io.BytesIO()
    now = int(time.time())
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            private = path.startswith("root/")
            for part in reversed(PurePosixPath(path).parents[:-1]):
                directory = tarfile.TarInfo(str(part))
                directory.type, directory.mtime = tarfile.DIRTYPE, now
                directory.mode = 0o700 if private else 0o755
                tar.addfile(directory)
            data = content.encode()
            file = tarfile.TarInfo(path)
            file.size, file.mtime = len(data), now
            file.mode = 0o600 if private else 0o644
            tar.addfile(file, io.BytesIO(data))
        end = tar.offset + END_BYTES
    return buffer.getvalue()[:end]
