"""Python programs with an environment of their own, made from hash-locked requirements at first use."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError
from strata.locks import file_lock
from strata.progress import Progress
from strata.site.paths import REPOSITORY, cache_directory
from strata.toolchain.versions import load_versions

COMPLETE = ".complete"
"""File of a finished environment."""


@dataclass(frozen=True)
class Environment:
    """An installed environment.

    Args:
        version: of the program.
        directory: of the environment.
    """

    version: str
    directory: Path

    @property
    def programs(self) -> Path:
        """Directory for PATH."""
        return self.directory / "bin"

    @property
    def share(self) -> Path:
        """Data files of its packages."""
        return self.directory / "share"

    @property
    def collections(self) -> Path:
        """Directory for ANSIBLE_COLLECTIONS_PATH."""
        return self.directory / "collections"


def environment_directory(name: str) -> Path:
    """Returns where the pinned environment is, whether or not it is installed."""
    pinned = load_versions().environments[name]
    version = "{}.{}".format(*sys.version_info[:2])
    content = (REPOSITORY / pinned.lock).read_bytes() + version.encode()
    return cache_directory() / "environments" / name / f"{pinned.version}-{hashlib.sha256(content).hexdigest()[:12]}"


def ensure_environment(name: str, progress: Progress) -> Environment:
    """Installs a pinned environment where it is missing.

    Args:
        name: key of `environments` in versions.yaml.
        progress: shows what is installed.

    Raises:
        UserError: uv is missing, or the package index did not respond.
    """
    pinned = load_versions().environments[name]
    directory = environment_directory(name)
    environment = Environment(pinned.version, directory)
    if (directory / COMPLETE).exists():
        return environment
    directory.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(directory.with_suffix(".lock"), progress, f"another process to install {name}"):
        if (directory / COMPLETE).exists():
            return environment
        progress.update(f"installing {name} {pinned.version}")
        # scripts in it name its path, so it cannot be moved there once complete
        shutil.rmtree(directory, ignore_errors=True)
        _run(name, ["uv", "venv", "--quiet", "--python", sys.executable, str(directory)])
        install = ["uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", str(directory)]
        _run(name, [*install, "--requirements", str(REPOSITORY / pinned.lock)])
        (directory / COMPLETE).touch()
    return environment


def ensure_collections(name: str, environment: Environment, progress: Progress) -> None:
    """Installs the environment's Ansible collections that no package has, each at its pinned commit.

    Raises:
        UserError: git or a repository is missing.
    """
    for collection, source in load_versions().environments[name].collections.items():
        target = environment.collections / "ansible_collections" / Path(*collection.split("."))
        commit = source.rpartition(",")[2]
        marker = target.parent / f".{target.name}-{commit}"
        lock = environment.directory / ".collections.lock"
        with file_lock(lock, progress, f"another process to install {collection}"):
            if marker.exists():
                continue
            progress.update(f"installing the collection {collection}")
            with tempfile.TemporaryDirectory(dir=environment.directory) as staging:
                command = [str(environment.programs / "ansible-galaxy"), "collection", "install", f"git+{source}"]
                _run(collection, [*command, "--no-deps", "--force", "--collections-path", staging])
                shutil.rmtree(target, ignore_errors=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(Path(staging, "ansible_collections", *collection.split(".")), target)
            marker.touch()


def _run(name: str, command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    except FileNotFoundError as error:
        fix = "pipx install uv, or run scripts/lab in a clone of the repository, which installs it"
        raise UserError(
            f"Python environment: {name} cannot be installed: {error.filename} is missing",
            fix=fix,
            see="a-python-environment-cannot-be-installed",
        ) from None
    if done.returncode != 0:
        raise UserError(
            f"Python environment: {name} cannot be installed: {(done.stderr or done.stdout).strip()[-1500:]}",
            fix="if an index or repository did not respond, run the same command again",
            see="a-python-environment-cannot-be-installed",
        )
