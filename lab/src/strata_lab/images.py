"""Builds the images of the lab's instances and of its OpenStack controller."""

from __future__ import annotations

from strata import toolchain
from strata.images.filesystem_build import ensure
from strata.progress import Progress
from strata_lab.filesystems import NFS_CLIENT, controller_filesystem, node_filesystem

_SYSTEMD_CHANGES = ('CMD ["/sbin/init"]', "STOPSIGNAL SIGRTMIN+3")


def ensure_node_image(release: str, progress: Progress) -> str:
    """podman reference of the image that instances of a Debian release boot.

    Args:
        release: "12" or "13".
        progress: receives status messages.

    Raises:
        UserError: the root filesystem or the NFS client could not be built.
    """
    toolchain.ensure((NFS_CLIENT,), progress)
    return ensure(node_filesystem(release), progress, _SYSTEMD_CHANGES)


def ensure_controller_image(progress: Progress) -> str:
    """podman reference of the image of the OpenStack controller and of the network agent."""
    return ensure(controller_filesystem(), progress, _SYSTEMD_CHANGES)
