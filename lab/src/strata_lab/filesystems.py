"""What the root filesystems of the lab's instances and of its OpenStack controller consist of."""

from __future__ import annotations

from pathlib import Path

import yaml

from strata import toolchain
from strata.errors import UserError
from strata.images.apt_sources import CODENAMES
from strata.images.root_filesystem import TRUST_HOST, RootFilesystem
from strata.roles import roles
from strata_lab.paths import ROLES

FILES = Path(__file__).parent / "files"

NFS_CLIENT = "mount.nfs"
"""Tool of versions.yaml; customize-node.sh installs it."""
_SYSTEMD = ("systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-apt", "sudo", "ca-certificates")
# what an instance of a cloud has; cloud-init without its recommendations, which grow disks
_INSTANCE = ("cloud-init", "lxcfs")
_NETWORK = ("iproute2", "iputils-ping", "netbase", "curl")
_CONTROLLER = ("procps", "openssh-client", "nftables")  # the network agent runs nft


def role_packages() -> list[str]:
    """Debian packages in the nodes' image, for containers: of all roles that do not keep theirs out of it."""
    there = [role for role in roles().values() if role.packages_in_image]
    return sorted({package for role in there for package in (*role.packages, *role.container_packages)})


def controller_packages() -> list[str]:
    """Debian packages of the OpenStack controller's roles."""
    defaults = yaml.safe_load((ROLES / "openstack_common" / "defaults" / "main.yml").read_text())
    packages: list[str] = defaults["openstack_common_packages"]
    return packages


def node_filesystem(release: str) -> RootFilesystem:
    """The nodes' root filesystem: base packages, those of all node roles, and mount.nfs."""
    if release not in CODENAMES:
        raise UserError(f"no node image for Debian {release}", fix=f"use one of {', '.join(CODENAMES)}")
    packages = (*_SYSTEMD, *_INSTANCE, *_NETWORK, "procps", *role_packages())
    scripts = (TRUST_HOST, FILES / "customize.sh", FILES / "customize-node.sh")
    return RootFilesystem(f"debian-{release}", release, packages, scripts, (toolchain.location(NFS_CLIENT),))


def controller_filesystem() -> RootFilesystem:
    """The root filesystem of the OpenStack controller and of the network agent."""
    packages = (*_SYSTEMD, *_NETWORK, *_CONTROLLER, *controller_packages())
    return RootFilesystem(
        "controller", "12", packages, (TRUST_HOST, FILES / "customize.sh", FILES / "customize-controller.sh")
    )
