"""Which packages the lab's root filesystems have."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import UserError
from strata.toolchain import load_versions
from strata_lab import images


def role(directory: Path, name: str, text: str) -> None:
    """One role with these defaults."""
    file = directory / name / "defaults" / "main.yml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_packages_are_the_union_of_the_roles(tmp_path: Path) -> None:
    role(tmp_path, "openstack_database", "openstack_database_packages: [mariadb-server]\nother_packages: [nethack]\n")
    role(tmp_path, "openstack_plain", "---\n")
    assert images.controller_packages(tmp_path) == ["mariadb-server"]
    assert {"sudo", "nfs-ganesha", "containerd"} <= set(images.role_packages())
    assert "chrony" not in images.role_packages(), "a node of the lab has its host's clock"


@pytest.mark.parametrize("value", ["a", "[1]", "[a"])
def test_bad_defaults_are_named(tmp_path: Path, value: str) -> None:
    role(tmp_path, "openstack_x", f"openstack_x_packages: {value}\n")
    with pytest.raises(UserError, match=r"openstack_x/defaults/main\.yml"):
        images.controller_packages(tmp_path)


def test_nodes_have_the_nfs_client_of_this_checkout() -> None:
    (file,) = images.node_filesystem("12").files
    assert file.name == "mount.nfs"
    assert file.parent.name.startswith(f"{load_versions().components['nfs-client'].version}-")


def test_unknown_release_is_refused() -> None:
    with pytest.raises(UserError, match="Debian 9"):
        images.node_filesystem("9")
