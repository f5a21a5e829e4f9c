"""What a machine needs to deploy a site elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.models import Site
from strata.site.outputs import ImageOutputs
from strata.site.paths import SitePaths

LEAST_PYTHON = (3, 11)
SSH_COMMANDS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}
IMAGE_COMMANDS = {"podman": "podman", "skopeo": "skopeo", "mmdebstrap": "mmdebstrap"}
"""Command to Debian package: what building and pushing the pod images takes."""


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
    """Commands that are missing; those for images only where images have to be built."""
    found = []
    if sys.version_info < LEAST_PYTHON:
        wanted = ".".join(map(str, LEAST_PYTHON))
        found.append(Problem(f"Python is {sys.version.split()[0]}, {wanted} or newer is needed", "install it"))
    found += _missing(SSH_COMMANDS, "reaches the hosts", "")
    if site.cluster is not None and ImageOutputs.load(paths) is None:
        pushed = f", or deploy from the machine whose {paths.outputs / ImageOutputs.file_name} names the pushed images"
        found += _missing(IMAGE_COMMANDS, "builds and pushes the pod images", pushed)
    return found


def _missing(commands: dict[str, str], purpose: str, otherwise: str) -> Iterator[Problem]:
    for command, package in commands.items():
        if shutil.which(command) is None:
            yield Problem(f"{command} is not installed; it {purpose}", f"apt-get install {package}{otherwise}")


def clouds_entry_problems(entry: str) -> list[Problem]:
    """What clouds.yaml is missing, searched for as OpenStack's tools do."""
    import openstack.config

    config = openstack.config.OpenStackConfig()
    if entry in config.get_cloud_names():
        return []
    where = config.config_filename or Path("~/.config/openstack/clouds.yaml")
    return [Problem(f"clouds.yaml does not name the cloud {entry} ({where})", f"add the cloud {entry} to clouds.yaml")]
