"""Builds Debian root filesystems with mmdebstrap, once per content, and imports them as podman images."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strata.access import podman
from strata.errors import UserError
from strata.images.apt_sources import CODENAMES, sources_for
from strata.images.root_filesystem import DIGEST_DIGITS, HOST_CA, OPTIONS, PodBase, RootFilesystem, pod_filesystem
from strata.locks import file_lock
from strata.processes import bind_to_parent
from strata.progress import Progress, elapsed
from strata.site.paths import cache_directory


def ensure_pod_bases(releases: Iterable[str], progress: Progress) -> dict[str, PodBase]:
    """Pod bases by Debian release, built in parallel where that has not been done.

    Args:
        releases: Debian releases, "12" or "13".
        progress: receives status messages.

    Raises:
        UserError: mmdebstrap failed; names its log.
    """
    unique = sorted(set(releases))

    def pod_base(release: str) -> PodBase:
        reference = ensure(pod_filesystem(release), progress, ('CMD ["/bin/sh"]',))
        return PodBase(reference, podman.podman("image", "inspect", "--format={{.Id}}", reference).strip())

    with ThreadPoolExecutor(max_workers=max(1, len(unique))) as pool:
        return dict(zip(unique, pool.map(pod_base, unique), strict=True))


def ensure(filesystem: RootFilesystem, progress: Progress, changes: Sequence[str]) -> str:
    """Builds and imports a root filesystem where that has not been done; safe to call from several processes.

    Args:
        filesystem: what it consists of.
        progress: receives status messages.
        changes: instructions of the image, `CMD ["/bin/sh"]`.

    Raises:
        UserError: mmdebstrap failed; names its log.
    """
    reference = filesystem.reference
    if podman.exists("image", reference):
        return reference
    directory = cache_directory() / "images"
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / f"{filesystem.name}-{filesystem.digest()}.tar"
    with file_lock(directory / f"{filesystem.name}.lock", progress, f"another process to finish {filesystem.name}"):
        if podman.exists("image", reference):
            return reference
        if not archive.exists():
            _build(filesystem, archive, progress)
        progress.update(f"importing {reference}")
        podman.podman("import", *(f"--change={change}" for change in changes), str(archive), reference)
    return reference


def _build(filesystem: RootFilesystem, archive: Path, progress: Progress) -> None:
    partial = archive.with_suffix(".part.tar")
    log = archive.with_suffix(".log")
    with tempfile.TemporaryDirectory(prefix="strata-sources-") as directory, log.open("w") as stream:
        sources = Path(directory, "debian.list")  # its name in the image, where apt-get uses it
        sources.write_text(sources_for(filesystem.release))
        with elapsed(progress, f"mmdebstrap {filesystem.name} (Debian {filesystem.release})"):
            status = subprocess.run(
                bind_to_parent(_command(filesystem, partial, sources)),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
    if status != 0:
        partial.unlink(missing_ok=True)
        last = " | ".join(line for line in log.read_text().splitlines() if line.startswith("E:"))[-400:]
        raise UserError(
            f"building the root filesystem {filesystem.name} failed: {last}",
            fix=f"see {log}; if the mirror did not respond, run the same command again",
        )
    partial.replace(archive)
    # the digest's digits: another filesystem's name may begin with this one's
    for older in archive.parent.glob(f"{filesystem.name}-{'[0-9a-f]' * DIGEST_DIGITS}.tar"):
        if older != archive:
            older.unlink()


def _command(filesystem: RootFilesystem, target: Path, sources: Path) -> list[str]:
    command = ["mmdebstrap", *OPTIONS, f"--include={','.join(sorted(set(filesystem.packages)))}"]
    if filesystem.customize:
        if HOST_CA.exists():
            command.append(f"--customize-hook=upload {HOST_CA} /tmp/host-ca.pem")
        command += [f"--customize-hook=upload {file} /tmp/{file.name}" for file in filesystem.files]
        for script in filesystem.customize:
            command += [
                f"--customize-hook=upload {script} /tmp/{script.name}",
                f'--customize-hook=chroot "$1" sh /tmp/{script.name}',
                f'--customize-hook=rm -f "$1"/tmp/{script.name}',
            ]
        left = " ".join(f'"$1"/tmp/{file.name}' for file in filesystem.files)
        command.append(f'--customize-hook=rm -f {left} "$1"/tmp/host-ca.pem "$1"/etc/ssh/ssh_host_*')
    return [*command, CODENAMES[filesystem.release], str(target), str(sources)]
