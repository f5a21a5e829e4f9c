"""What `strata destroy` leaves, and the removal of a site's state."""

from __future__ import annotations

import shutil

from strata.models.site import Site
from strata.site.paths import SitePaths


def left_on_machines(site: Site) -> list[str]:
    """A line for each machine that goes on running, because it is not an instance of a cloud."""
    return [f"{m.name} ({m.address}): {', '.join(m.roles)}" for m in site.hosts.machines]


def remove_state(paths: SitePaths, *, keep_ssh_key: bool) -> None:
    """Removes the state directory.

    Args:
        paths: the site's.
        keep_ssh_key: leave the SSH key and the known hosts, for machines that still accept the key.
    """
    if not keep_ssh_key:
        shutil.rmtree(paths.root)
        return
    kept = {paths.ssh_key, paths.ssh_key.with_suffix(".pub"), paths.known_hosts}
    for entry in set(paths.root.iterdir()) - kept:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
