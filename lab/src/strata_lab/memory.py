"""Whether this machine has the memory that a site's instances will at least use."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from strata.access.podman import site_containers
from strata.errors import UserError
from strata.models.site import Site
from strata_lab import backup_store, controller
from strata_lab.network import container as network

MEMINFO = Path("/proc/meminfo")
CONTROLLER = 2.5
"""GiB allowed for OpenStack's services, whose 13 daemons were once measured at 2.0 GB; the rest is an allowance."""
INSTANCE = 0.25
"""GiB allowed for an instance with roles: an estimate, not a measurement of each role. With CONTROLLER it gives 3.5 GiB
for the lab of four instances, of which 3.3 GiB were measured as a whole."""
_GIB = 1 << 30


@dataclass(frozen=True)
class Need:
    """Memory in GiB.

    Args:
        least: what the parts of the site that do not run yet will use at least.
        most: what they may use, by their flavors.
        instances: how many of them are instances.
        available: on this machine.
    """

    least: float
    most: float
    instances: int
    available: float


def need(site: Site, running: int = 0, *, controller: bool = False) -> Need:
    """What a site still needs.

    Args:
        site: with a lab cloud.
        running: how many of its instances run already.
        controller: whether its controller does.
    """
    assert site.cloud is not None
    sizes = {flavor.name: flavor.memory.bytes / _GIB for flavor in site.cloud.flavors}
    # which of them run does not matter: the largest count as missing
    missing = sorted((sizes[instance.flavor] for instance in site.cloud.instances), reverse=True)
    missing = missing[: max(0, len(missing) - running)]
    services = 0.0 if controller else CONTROLLER
    least = services + sum(min(size, INSTANCE) for size in missing)
    return Need(least, services + sum(missing), len(missing), available())


def available() -> float:
    """GiB that new processes can have without swapping."""
    fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024 / _GIB


def check_memory(site: Site) -> None:
    """Refuses a site that this machine has no memory for, before anything of it is made.

    Raises:
        UserError: names what is needed, what is there, and what would help.
    """
    running = set(site_containers(site.name, running=True)) if shutil.which("podman") is not None else set()
    openstack = controller.container_name(site)
    instances = running - {openstack, network.container_name(site.name), backup_store.container_name(site.name)}
    memory = need(site, len(instances), controller=openstack in running)
    if memory.available < memory.least:
        raise UserError(
            f"{memory.available:.1f} GiB of memory are left on this machine; what is missing of site {site.name} "
            f"({'' if openstack in running else 'OpenStack, '}{memory.instances} instances) uses at least "
            f"{memory.least:.1f} GiB, and up to {memory.most:.1f} GiB by its flavors",
            fix="end what takes the memory (`ps aux --sort=-rss | head`), stop another site (`strata down`), or ask "
            "for fewer instances in cloud.instances",
        )
