"""Sends a packed image with skopeo, and does not wait for a registry that takes nothing."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from strata.errors import UserError
from strata.images.registry_client import RegistryClient
from strata.processes import bind_to_parent
from strata.progress import Progress
from strata.retry import attempts

STALLED_SECONDS = 60.0
"""How long a push may move next to nothing before it is given up; skopeo itself would wait for ever."""
MOVED_BYTES = 64 << 10
"""What counts as moving: Go's runtime writes a few bytes even when nothing happens."""
TICK_SECONDS = 0.25
PAUSES = (2.0, 2.0)
"""Seconds between attempts."""


def push(
    layout: Path, repository: str, tag: str, registry: RegistryClient, credentials: Path, progress: Progress
) -> str:
    """Pushes a packed image to the registry by its address; returns the digest.

    The tag is given last, so an interrupted push leaves no image.

    Args:
        layout: directory of an OCI layout that holds the image alone.
        repository: name in the registry.
        tag: tag in the registry.
        registry: where to.
        credentials: directory with what `registry.write_credentials` wrote.
        progress: receives status messages.

    Raises:
        UserError: the registry did not take it although it was tried again, or takes nothing more; skopeo is missing.
    """
    if shutil.which("skopeo") is None:
        raise UserError("skopeo is not installed", fix="apt-get install skopeo")
    for last in attempts(PAUSES):
        with tempfile.NamedTemporaryFile(prefix="strata-digest-") as digest:
            command = [
                "skopeo", "copy", "--quiet", f"--dest-cert-dir={credentials}", f"--digestfile={digest.name}",
                f"--authfile={credentials / 'auth.json'}",
                f"oci:{layout}", f"docker://{registry.endpoint}/{repository}:{tag}",
            ]  # fmt: skip
            status, said = _run(command, repository, progress)
            if status == 0:
                return Path(digest.name).read_text().strip()
        # skopeo's own repetitions omit most of a registry's output
        if status is None or last:
            break
        progress.update(f"pushing image {repository} again: {said.splitlines()[-1][:200] if said else status}")
    raise UserError(
        f"the site's registry at {registry.endpoint} did not take {repository}: {said}",
        fix="on its host, check `df -h` and `journalctl -u docker-registry`; fix it and run the same command "
        "again: what was pushed stays",
    )


def _run(command: list[str], repository: str, progress: Progress) -> tuple[int | None, str]:
    """Exit status and output; None as status where nothing moved and the push was ended."""
    begin = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            bind_to_parent(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        ) as process,
    ):
        moved = _Moved(process.pid)
        while (status := _wait(process)) is None:
            progress.update(f"pushing image {repository}, {time.monotonic() - begin:.0f} s")
            if moved.stalled():
                process.kill()
                process.wait()
                return None, f"nothing moved for {STALLED_SECONDS:.0f} s"
        said.seek(0)
        return status, said.read().strip()[-1500:]


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(TICK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


class _Moved:
    """What a process has read and written so far, files and sockets alike.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/io")
        self._bytes = 0
        self._since = time.monotonic()

    def stalled(self) -> bool:
        """Whether it has moved next to nothing for STALLED_SECONDS; no where the kernel does not count."""
        try:
            fields = dict(line.split(": ") for line in self._file.read_text().splitlines())
        except OSError:
            return False
        now = int(fields["rchar"]) + int(fields["wchar"])
        if now - self._bytes >= MOVED_BYTES:
            self._bytes, self._since = now, time.monotonic()
        return time.monotonic() - self._since > STALLED_SECONDS
