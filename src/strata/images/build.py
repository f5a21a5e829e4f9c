"""Builds one container image with podman."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strata.access.podman import build_image, list_containers, podman
from strata.errors import UserError
from strata.images.package_clients import mounts
from strata.images.python_packages import PythonPackages, install_packages
from strata.images.root_filesystem import PodBase

LOCAL_PREFIX = "localhost/strata/pod"
"""Local names of what is built here, `<prefix>/<name>:<content hash>`."""
WORKING_CONTAINER = re.compile(r"strata-.*-working-container(-\d+)?")
"""What podman calls the container of a build that starts from a pod base."""


@dataclass(frozen=True)
class ImageSource:
    """What an image is made of.

    Args:
        name: repository in the registry, "kubernetes/pause".
        containerfile: text of the Containerfile.
        files: path in the build context to file or directory on this machine.
        tags: tags that others ask for (kubeadm); the content hash is a tag always.
        bases: build argument to the pod base that it names, DEBIAN_12 or DEBIAN_13.
        packages: Python dependencies.
        network: whether the build has the host's network, for apt-get and other clients of package registries.
    """

    name: str
    containerfile: str
    files: Mapping[str, Path] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    bases: Mapping[str, PodBase] = field(default_factory=dict)
    packages: PythonPackages | None = None
    network: bool = False

    def content_hash(self) -> str:
        """Names the image's content: its Containerfile, bases, files and Python dependencies."""
        bases = sorted((name, base.identifier) for name, base in self.bases.items())
        digest = hashlib.sha256(f"{self.containerfile}\0{bases}\0".encode())
        for target, path in sorted(self.files.items()):
            for file in _files(path):
                relative = file.relative_to(path) if path.is_dir() else ""
                digest.update(f"{target}/{relative}\0{os.access(file, os.X_OK)}\0{file_digest(file)}\0".encode())
        if self.packages:
            lock = file_digest(self.packages.project / "uv.lock")
            digest.update(f"{self.packages.python}\0{lock}\0".encode())
        return digest.hexdigest()[:24]


def _files(path: Path) -> Sequence[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(
            f"{path} is missing; an image is built from it", fix="restore it from git, or run `strata doctor`"
        )
    return sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


_KNOWN_DIGESTS: dict[tuple[str, int, int], str] = {}


def file_digest(file: Path) -> str:
    """SHA-256 of a file, kept beside unchanged size and time so that 100 MB binaries are read once."""
    stat = file.stat()
    key = (str(file.resolve()), stat.st_size, stat.st_mtime_ns)
    if key not in _KNOWN_DIGESTS:
        with file.open("rb") as stream:
            _KNOWN_DIGESTS[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _KNOWN_DIGESTS[key]


def load_digests(cache: Path) -> None:
    """Reads the digests that an earlier run computed; a broken cache counts as an empty one."""
    if not cache.exists():
        return
    for line in cache.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 4 and fields[1].isdigit() and fields[2].isdigit():
            _KNOWN_DIGESTS[(fields[0], int(fields[1]), int(fields[2]))] = fields[3]


def save_digests(cache: Path) -> None:
    """Keeps the digests of big files for the next run."""
    lines = [f"{p}\t{size}\t{time}\t{d}\n" for (p, size, time), d in sorted(_KNOWN_DIGESTS.items()) if size > 1 << 20]
    text = "".join(line for line in lines if Path(line.split("\t")[0]).exists())
    if not cache.exists() or cache.read_text() != text:
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(text)


def build(source: ImageSource, reference: str) -> None:
    """Builds an image; the same inputs give the same digest.

    Raises:
        UserError: podman or uv refused.
    """
    remove_cut_off_builds()
    with tempfile.TemporaryDirectory(prefix="strata-image-") as scratch:
        context = Path(scratch) / "context"
        context.mkdir()
        for target, path in source.files.items():
            destination = context / target
            destination.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, destination, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                _link_or_copy(path.resolve(), destination)
        if source.packages:
            install_packages(source.packages, context / "site-packages")
        containerfile = Path(scratch) / "Containerfile"
        containerfile.write_text(source.containerfile)
        arguments = [f"--build-arg={name}={base.reference}" for name, base in source.bases.items()]
        # the host's own: a proxy or mirror may be on its loopback interface
        arguments += ["--network=host", *mounts(Path(scratch))] if source.network else ["--network=none"]
        build_image(
            "--quiet", "--pull=never", "--timestamp=0", "--format=oci", *arguments,
            f"--file={containerfile}", f"--tag={reference}", str(context),
        )  # fmt: skip


def remove_cut_off_builds() -> list[str]:
    """Removes the working containers that killed builds left in podman's storage.

    Returns:
        Their names; none while a build runs on this machine, because a working container does not name its owner.

    Raises:
        PodmanError: podman refused.
    """
    containers = [c for c in list_containers("--external") if c["State"] == "storage"]
    left = {c["Id"]: c["Names"][0] for c in containers if c["Names"] and WORKING_CONTAINER.fullmatch(c["Names"][0])}
    # asked after the list was made: a build that has one of these and still runs is seen
    if not left or _builds_run():
        return []
    podman("rm", "--force", *left)
    return list(left.values())


def _builds_run() -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile
        if Path(program.decode(errors="replace")).name == "podman" and b"build" in arguments:
            return True
    return False


def _link_or_copy(source: Path, destination: Path) -> None:
    """A hard link where both are on one file system: the Kubernetes binaries are 500 MB."""
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)
