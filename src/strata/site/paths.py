"""Where a site's state, caches and the repository are on this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
"""Root of the checkout; Strata runs from its repository (roles, charts and programs are files there). The wheel has the
same layout, in strata_repository."""
INSTALLED = not (REPOSITORY / "pyproject.toml").exists()
"""Whether this is an installed wheel: without the lab and the tests, and replaced as a whole by the next version."""


def _base(variable: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(variable):
        return Path(value).expanduser().absolute()
    if value := os.environ.get(xdg):
        return Path(value) / "strata"
    return Path.home() / fallback / "strata"


def cache_directory() -> Path:
    """Tools and images per version; safe to delete."""
    return _base("STRATA_CACHE_DIR", "XDG_CACHE_HOME", ".cache")


def state_directory() -> Path:
    """One directory per site below it, each mode 0700."""
    return _base("STRATA_STATE_DIR", "XDG_STATE_HOME", ".local/state")


def make_private(directory: Path) -> None:
    """Takes the rights of group and others from a directory and what is below it.

    Pulumi and others write files with the rights that the user's umask leaves; the directory above keeps others out,
    but a copy or a backup of a file would not.
    """
    pending = [directory]
    while pending:
        current = pending.pop()
        with suppress(FileNotFoundError):  # another run is at work
            _restrict(current, current.lstat().st_mode)
            for entry in os.scandir(current):
                with suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        _restrict(Path(entry.path), entry.stat(follow_symlinks=False).st_mode)


def _restrict(path: Path, mode: int) -> None:
    if mode & 0o077:
        path.chmod(mode & 0o700)


@dataclass(frozen=True)
class SitePaths:
    """The files of one site's state.

    Args:
        site: the site's name, also the Pulumi stack's.
    """

    site: str

    @property
    def root(self) -> Path:
        return state_directory() / self.site

    def create(self) -> SitePaths:
        """Makes the directories, readable by their owner only."""
        for directory in (self.root, self.outputs, self.logs, self.pulumi):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self

    @property
    def outputs(self) -> Path:
        return self.root / "outputs"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pulumi(self) -> Path:
        """The file backend of both Pulumi programs."""
        return self.root / "pulumi"

    @property
    def passphrase_file(self) -> Path:
        """Encrypts the secret store and the Pulumi state; mode 0600."""
        return self.root / "passphrase"

    @property
    def next_passphrase_file(self) -> Path:
        """The passphrase that a rotation is changing to; there only until it is done."""
        return self.root / "passphrase.next"

    @property
    def secrets_file(self) -> Path:
        """ansible-vault file; `ansible-vault view --vault-password-file` opens it."""
        return self.root / "secrets.vault.yaml"

    @property
    def clouds_file(self) -> Path:
        """clouds.yaml, mode 0600; the cloud is called as the site."""
        return self.root / "clouds.yaml"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def ssh_key(self) -> Path:
        """Private key, mode 0600; the public one beside it ends in .pub."""
        return self.root / "ssh_key"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    @property
    def ca_file(self) -> Path:
        """The site's certificate authority (public part)."""
        return self.root / "ca.pem"
