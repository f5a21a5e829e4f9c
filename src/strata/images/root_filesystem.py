"""Debian root filesystems as podman images, built once per content."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strata.access import podman
from strata.errors import UserError
from strata.images.apt_sources import CODENAMES, sources_for
from strata.locks import file_lock
from strata.processes import bind_to_parent
from strata.progress import Progress
from strata.site.paths import cache_directory

FILES = Path(__file__).parent / "files"
_POD = ("python3", "iptables", "nftables", "ca-certificates", "netbase")  # kube-proxy runs nft
_OPTIONS = (
    "--variant=minbase",
    "--mode=root",
    "--format=tar",
    '--aptopt=Acquire::Languages "none"',
    '--aptopt=APT::Install-Recommends "false"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=force-unsafe-io",
)
_HOST_CA = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class RootFilesystem:
    """What a root filesystem consists of; the same description is the same image.

    Args:
        name: short name, part of the image's.
        release: Debian release, "12" or "13".
        packages: Debian packages beyond mmdebstrap's minbase.
        customize: shell scripts that run inside before packing, in this order.
        files: what the scripts find in /tmp, by their names; each is in a folder named after the content, as tools are.
    """

    name: str
    release: str
    packages: tuple[str, ...]
    customize: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()

    def digest(self) -> str:
        """Names the content: packages, scripts, files and the host's certificate authorities."""
        content = hashlib.sha256(repr((self.name, self.release, sorted(set(self.packages)), _OPTIONS)).encode())
        for script in self.customize:
            content.update(script.read_bytes())
        for file in self.files:  # a site is planned before its tools are built
            content.update(f"{file.parent.name}/{file.name}".encode())
        if _HOST_CA.exists():
            content.update(_HOST_CA.read_bytes())
        return content.hexdigest()[:12]

    @property
    def reference(self) -> str:
        """The podman image."""
        return f"localhost/strata-{self.name}:{self.digest()}"


def ensure_pod_base_image(progress: Progress) -> str:
    """podman reference of the slim Debian that pod images of ours start from."""
    return ensure(
        RootFilesystem("pod-base", "12", _POD, (FILES / "customize-pod.sh",)), progress, command='CMD ["/bin/sh"]'
    )


def ensure(filesystem: RootFilesystem, progress: Progress, *, command: str) -> str:
    """Builds and imports a root filesystem where that has not been done; safe to call from several processes.

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
        podman.podman("import", "--change", command, "--change", "STOPSIGNAL SIGRTMIN+3", str(archive), reference)
    return reference


def _build(filesystem: RootFilesystem, archive: Path, progress: Progress) -> None:
    partial = archive.with_suffix(".part.tar")
    log = archive.with_suffix(".log")
    with tempfile.NamedTemporaryFile("w", suffix=".list", prefix="strata-sources-") as sources, log.open("w") as stream:
        sources.write(sources_for(filesystem.release))
        sources.flush()
        with _reported(progress, f"mmdebstrap {filesystem.name} (Debian {filesystem.release})"):
            status = subprocess.run(
                bind_to_parent(_command(filesystem, partial, Path(sources.name))),
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
            fix=f"see {log}; if the mirror did not answer, run the same command again",
        )
    partial.replace(archive)
    for older in archive.parent.glob(f"{filesystem.name}-*.tar"):
        if older != archive:
            older.unlink()


def _command(filesystem: RootFilesystem, target: Path, sources: Path) -> list[str]:
    command = ["mmdebstrap", *_OPTIONS, f"--include={','.join(sorted(set(filesystem.packages)))}"]
    if filesystem.customize:
        if _HOST_CA.exists():
            command.append(f"--customize-hook=upload {_HOST_CA} /tmp/host-ca.pem")
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


@contextmanager
def _reported(progress: Progress, what: str) -> Iterator[None]:
    """Tells every second for how long something has been running."""
    done = threading.Event()
    started = time.monotonic()

    def tell() -> None:
        while not done.is_set():
            progress.update(f"{what}, {time.monotonic() - started:.0f} s")
            done.wait(1)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
