"""What a machine needs to deploy a site elsewhere."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.models.site import Site
from strata.site.installer_facts import installer_of
from strata.site.outputs import ImageOutputs
from strata.site.paths import SitePaths, cache_directory

LEAST_PYTHON = (3, 11)
SSH_COMMANDS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}
IMAGE_COMMANDS = {"podman": "podman", "runc": "runc", "skopeo": "skopeo", "mmdebstrap": "mmdebstrap"}
"""Command to Debian package: what building and pushing the pod images takes."""
UV, UV_FIX = "uv", "apt-get install pipx, then pipx install uv"
CAPABILITIES = {"CAP_CHOWN": 0, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21}
"""Bits of what root needs to build a root filesystem; root of a user namespace has them, of most containers not."""
CONTAINERS = Path("/var/lib/containers")
"""Where podman stores images for root."""
BUILD_DISK_GIB = 10
"""What the first run leaves behind where images are built, without the caches of Go that it may need meanwhile."""
LEAST_DISK_GIB = 2
"""What later runs write."""
GIB = 2**30


@dataclass(frozen=True)
class Problem:
    """Something this machine is missing.

    Args:
        message: what was found and what is needed.
        fix: what to do about it.
    """

    message: str
    fix: str


def deployment_host_problems(site: Site, paths: SitePaths) -> list[Problem]:
    """Commands, rights and free space that are missing; those for images only where images have to be built."""
    problems = []
    if sys.version_info < LEAST_PYTHON:
        least = ".".join(map(str, LEAST_PYTHON))
        problems.append(Problem(f"Python is {sys.version.split()[0]}, {least} or newer is needed", "install it"))
    problems += _missing(SSH_COMMANDS, "reaches the hosts", "")
    if site.cluster is not None and ImageOutputs.load(paths) is None:
        pushed = f", or deploy from the machine whose {paths.outputs / ImageOutputs.file_name} names the pushed images"
        problems += _missing(IMAGE_COMMANDS, "builds and pushes the pod images", pushed)
        problems += [*_rights(pushed), *_distribution(pushed)]
        problems += uv_problems()
        built = any((cache_directory() / "images").glob("pod-base-*.tar"))
        return [*problems, *_free_space(LEAST_DISK_GIB if built else BUILD_DISK_GIB, (cache_directory(), CONTAINERS))]
    if not installer_of(site).by_roles:
        problems += uv_problems()
    return [*problems, *_free_space(LEAST_DISK_GIB, (cache_directory(),))]


def uv_problems() -> list[Problem]:
    """Whether uv is missing, which installs Python packages: of images, and what runs Kubespray and Kolla-Ansible."""
    return [] if shutil.which(UV) else [Problem(f"{UV} is not installed; it installs Python packages", UV_FIX)]


def _rights(otherwise: str) -> Iterator[Problem]:
    """mmdebstrap creates devices and mounts in the root filesystems of the pod images."""
    if os.geteuid() != 0:
        why = f"the user is not root (uid {os.geteuid()}), as which the root filesystems of the pod images are built"
        yield Problem(why, f"run it as root, for example: sudo -i{otherwise}")
        return
    mask = re.search(r"^CapEff:\s*([0-9a-f]+)$", _read(Path("/proc/self/status")), re.MULTILINE)
    held = int(mask[1], 16) if mask else 0
    if missing := [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]:
        why = f"root has no {', '.join(missing)} here, and builds the root filesystems of the pod images"
        yield Problem(why, f"use a machine, or a container started with --privileged{otherwise}")


def _distribution(otherwise: str) -> Iterator[Problem]:
    """The archives of the host's apt are those of the pod images."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    if release.get("ID") != "debian":
        name = release.get("PRETTY_NAME") or "a system without /etc/os-release"
        why = f"this is {name}; pod images are built from the Debian archive that apt uses here"
        yield Problem(why, f"use a Debian 12 or 13 host{otherwise}")


def _free_space(needed_gib: int, places: tuple[Path, ...]) -> Iterator[Problem]:
    """File systems with less free space than a run writes."""
    devices: dict[int, list[Path]] = {}
    for path in places:
        devices.setdefault(_existing(path).stat().st_dev, []).append(path)
    for paths in devices.values():
        free = shutil.disk_usage(_existing(paths[0])).free
        if free < needed_gib * GIB:
            names = " and ".join(map(str, paths))
            yield Problem(
                f"{free / GIB:.1f} GiB free for {names}, {needed_gib} GiB are needed",
                "free some space, or set STRATA_CACHE_DIR to a directory on a larger disk",
            )


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _missing(commands: dict[str, str], purpose: str, otherwise: str) -> Iterator[Problem]:
    for command, package in commands.items():
        if shutil.which(command) is None:
            yield Problem(f"{command} is not installed; it {purpose}", f"apt-get install {package}{otherwise}")


def clouds_entry_problems(entry: str) -> list[Problem]:
    """What clouds.yaml is missing, searched for as OpenStack's tools do."""
    import openstack.config  # noqa: PLC0415  # loads openstack: 0.2 s

    config = openstack.config.OpenStackConfig()
    if entry in config.get_cloud_names():
        return []
    where = config.config_filename or Path("~/.config/openstack/clouds.yaml")
    return [Problem(f"clouds.yaml does not name the cloud {entry} ({where})", f"add the cloud {entry} to clouds.yaml")]
