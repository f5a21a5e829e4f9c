"""Kubespray's playbooks at the pinned commit: from the mirror directory, else from the project's repository."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from strata.errors import UserError
from strata.locks import file_lock
from strata.progress import Progress
from strata.site.paths import cache_directory
from strata.toolchain.python_environment import COMPLETE
from strata.toolchain.resolve import mirror_directory
from strata.toolchain.versions import GitSource, load_versions

PROGRAM = "kubespray"
"""Its name in versions.yaml."""


def pinned() -> tuple[str, GitSource]:
    """Version and source in versions.yaml."""
    environment = load_versions().environments[PROGRAM]
    if environment.source is None:
        raise ValueError(f"versions.yaml: environments.{PROGRAM} has no source")
    return environment.version, environment.source


def source_directory() -> Path:
    """Where the playbooks are, whether or not they are there yet."""
    version, source = pinned()
    return cache_directory() / "sources" / f"{PROGRAM}-{version}-{source.digest[7:19]}"


def archive_name() -> str:
    """Name of the archive in the mirror, also of its only folder."""
    return f"{PROGRAM}-{pinned()[0]}"


def mirrored_archive() -> Path | None:
    """The archive in the mirror directory; None where there is no mirror, or it does not have it."""
    mirror = mirror_directory()
    if mirror is None:
        return None
    file = mirror / PROGRAM / pinned()[0] / f"{archive_name()}.tar.gz"
    return file if file.is_file() else None


def ensure_source(progress: Progress) -> Path:
    """Fetches the playbooks where they are missing.

    Args:
        progress: shows what is fetched.

    Returns:
        The directory with cluster.yml.

    Raises:
        UserError: neither the mirror nor the repository has them, or they differ from what versions.yaml pins.
    """
    directory = source_directory()
    if (directory / COMPLETE).exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(directory.with_suffix(".lock"), progress, "another process to fetch Kubespray"):
        if (directory / COMPLETE).exists():
            return directory
        with tempfile.TemporaryDirectory(dir=directory.parent) as staging:
            archive = mirrored_archive()
            if archive is None:
                progress.update(f"fetching Kubespray {pinned()[0]} from its repository")
                content, place = _clone(Path(staging)), pinned()[1].repository
            else:
                progress.update(f"unpacking Kubespray {pinned()[0]} from the mirror")
                content, place = _decompress(archive), str(archive)
            _unpack(content, place, Path(staging))
            shutil.rmtree(directory, ignore_errors=True)
            shutil.move(Path(staging, archive_name()), directory)
            (directory / COMPLETE).touch()
    return directory


def _decompress(archive: Path) -> bytes:
    try:
        return gzip.decompress(archive.read_bytes())
    except (OSError, EOFError) as error:
        raise UserError(
            f"{archive}: {error}", fix="replace the file in the mirror", see="kubespray-cannot-be-fetched"
        ) from None


def _clone(staging: Path) -> bytes:
    """The archive of the pinned commit, as git writes it."""
    source, repository = pinned()[1], staging / "repository.git"
    _git("init", "--quiet", "--bare", str(repository))
    _git("-C", str(repository), "fetch", "--quiet", "--depth=1", source.repository, source.commit)
    return _git("-C", str(repository), "archive", f"--prefix={archive_name()}/", source.commit)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError(
            "Kubespray cannot be fetched: git is not installed",
            fix="apt-get install git",
            see="kubespray-cannot-be-fetched",
        ) from None
    if done.returncode != 0:
        version, source = pinned()
        raise UserError(
            f"Kubespray {version} cannot be fetched from {source.repository}: {done.stderr.decode().strip()[-500:]}",
            fix=f"run the same command again, or put {archive_name()}.tar.gz into $STRATA_MIRROR/{PROGRAM}/{version}",
            see="kubespray-cannot-be-fetched",
        )
    return done.stdout


def _unpack(content: bytes, place: str, into: Path) -> None:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if digest != pinned()[1].digest:
        raise UserError(
            f"{place}: the archive has {digest}, versions.yaml pins {pinned()[1].digest}",
            fix=f"replace it by `git archive --prefix={archive_name()}/ {pinned()[1].commit} | gzip`",
            see="kubespray-cannot-be-fetched",
        )
    file = into / "archive.tar"
    file.write_bytes(content)
    with tarfile.open(file) as archive:
        archive.extractall(into, filter="data")
