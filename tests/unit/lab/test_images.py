"""Which packages the lab's root filesystems have."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import UserError
from strata_lab import images


def role(directory: Path, name: str, text: str) -> None:
    """One role with these defaults."""
    file = directory / name / "defaults" / "main.yml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_packages_are_the_union_of_the_roles(tmp_path: Path) -> None:
    role(tmp_path, "base", "base_packages: [sudo, curl]\nother_packages: [nethack]\n")
    role(tmp_path, "nfs_server", "nfs_server_packages: [nfs-ganesha, curl]\n")
    role(tmp_path, "plain", "---\n")
    role(tmp_path, "openstack_database", "openstack_database_packages: [mariadb-server]\n")
    assert images.role_packages(tmp_path) == ["curl", "nfs-ganesha", "sudo"]
    assert images.role_packages(tmp_path, controller=True) == ["mariadb-server"]


@pytest.mark.parametrize("text", ["base_packages: sudo\n", "base_packages: [1]\n", "base_packages: [sudo\n"])
def test_bad_defaults_are_named(tmp_path: Path, text: str) -> None:
    role(tmp_path, "base", text)
    with pytest.raises(UserError, match=r"base/defaults/main\.yml"):
        images.role_packages(tmp_path)


def test_unknown_release_is_refused() -> None:
    with pytest.raises(UserError, match="Debian 9"):
        images.node_filesystem("9")
