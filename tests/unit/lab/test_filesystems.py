"""Which packages the lab's root filesystems have."""

from __future__ import annotations

import pytest

from strata.errors import UserError
from strata.inventory.playbooks import host_variables
from strata.toolchain import load_versions
from strata_lab import filesystems


def test_packages_are_those_of_the_roles() -> None:
    assert {"mariadb-server", "rabbitmq-server", "podman"} <= set(filesystems.controller_packages())
    assert {"sudo", "nfs-ganesha", "containerd"} <= set(filesystems.role_packages())
    assert "chrony" not in filesystems.role_packages(), "a node of the lab has its host's clock"


def test_packages_of_some_roles_are_on_their_hosts_only() -> None:
    assert "aria2" in host_variables(("data_transfer",))["base_packages"]  # type: ignore[operator]
    assert "aria2" not in filesystems.role_packages()


def test_nodes_have_the_nfs_client_of_this_checkout() -> None:
    (file,) = filesystems.node_filesystem("12").files
    assert file.name == "mount.nfs"
    assert file.parent.name.startswith(f"{load_versions().components['nfs-client'].version}-")


def test_unknown_release_is_refused() -> None:
    with pytest.raises(UserError, match="Debian 9"):
        filesystems.node_filesystem("9")
