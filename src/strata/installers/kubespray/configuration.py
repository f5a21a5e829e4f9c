"""The inventory directory of Kubespray in the site's state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from strata.errors import UserError
from strata.installers.kubespray.files import HOSTS, NAMES, STATE, nodes, public_files, state_file
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site.paths import SitePaths


def inventory_directory(paths: SitePaths) -> Path:
    """Kubespray's inventory of a site; mode 0700."""
    return paths.root / "kubespray"


def write_configuration(context: SiteContext) -> int:
    """Writes everything that Kubespray reads, each file with mode 0600.

    Returns:
        The number of files that changed.

    Raises:
        UserError: the hosts of the cluster do not exist yet.
    """
    outputs = context.cloud_outputs
    if not any("kube_control_plane" in host.roles for host in nodes(context.site, outputs)):
        name = context.site.name
        raise UserError(
            f"site {name}: no deployed host has the role kube_control_plane",
            fix=f"run `strata up {name} --layer cloud`",
            see="kubespray-failed",
        )
    directory = inventory_directory(context.paths)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = public_files(context.site, outputs) | {STATE: state_file(context)}
    return sum([write_private(directory / name, text) for name, text in files.items()])


def configuration_digest(context: SiteContext) -> str:
    """Digest of the variables of groups, as they are written, those for CoreDNS alone excepted."""
    return _digest(context, {*public_files(context.site, context.cloud_outputs), STATE} - {HOSTS, NAMES})


def names_digest(context: SiteContext) -> str:
    """Digest of the names that CoreDNS resolves for the site."""
    return _digest(context, {NAMES})


def _digest(context: SiteContext, files: Iterable[str]) -> str:
    directory, digest = inventory_directory(context.paths), hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{(directory / name).read_text()}\0".encode())
    return digest.hexdigest()
