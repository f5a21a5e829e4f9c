"""Containers that a crash left in another state than podman reports: ended, half created or half removed."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

from strata.access.podman import SITE_LABEL, list_containers, partially_created, podman, site_networks

EXITS = Path("/run/libpod/exits")
"""Where conmon, podman's monitor of a container, leaves the exit status when the container ends."""
LEASES = Path("/var/lib/cni/networks")
"""Where podman's network plugin keeps addresses; a reboot leaves them where systemd does not clean up."""
KILLED = "137"
PROC = Path("/proc")
ENDED = ("Z", "X")
EXITING = 0x4
"""PF_EXITING of Linux' include/linux/sched.h."""
ENDING_SECONDS = 30.0


def reconcile(site: str) -> list[str]:
    """Has podman know which containers of a site no longer run, frees their addresses and removes halves of containers.

    Args:
        site: nothing else may start containers of this site meanwhile, unless its controller runs.

    Returns:
        Names of the containers that podman took for running, and of those that were partially created.

    Raises:
        PodmanError: podman refused.
    """
    containers = list_containers("--filter", f"label={SITE_LABEL}={site}")
    dead = [c for c in containers if c["State"] in ("running", "stopping") and not _lives(c)]
    for container in dead:
        # what conmon would have written, had it not been killed
        EXITS.mkdir(parents=True, exist_ok=True)
        (EXITS / container["Id"]).write_text(KILLED)
    for container in dead:
        podman("container", "cleanup", container["Names"][0])
    alive = {c["Id"]: c["Names"][0] for c in containers if c["State"] == "running" and c not in dead}
    halves: list[str] = []
    # nova starts, creates and removes instances
    if not any(name.endswith("-controller") for name in alive.values()):
        halves = partially_created(site)
        for name in halves:
            podman("rm", "--force", "--time", "0", "--volumes", name)
        _free_addresses(site, set(alive))
    return [c["Names"][0] for c in dead] + halves


def _lives(container: dict[str, Any]) -> bool:
    """Whether the container's first process runs; waits for one that is ending.

    A killed first process is there until the last process of its container has ended: seconds, on a busy machine.
    """
    process = PROC / str(container["Pid"])
    end = time.monotonic() + ENDING_SECONDS
    while True:
        try:
            # the number may belong to another process by now
            if container["Id"] not in (process / "cgroup").read_text():
                return False
            # proc(5): behind the command in brackets come the state and numbers, of which the sixth is the flags
            state, *numbers = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        if state in ENDED:
            return False
        if not int(numbers[5]) & EXITING or time.monotonic() > end:
            return True
        time.sleep(0.1)


def _free_addresses(site: str, alive: set[str]) -> None:
    for network in site_networks(site):
        for lease in (LEASES / network).glob("*[.:]*"):
            if lease.is_file() and not lease.name.startswith("last_reserved") and _holder(lease) not in alive:
                lease.unlink()


def _holder(lease: Path) -> str:
    lines = lease.read_text().splitlines()
    return lines[0].strip() if lines else ""


def forget_networks(site: str) -> None:
    """Removes what podman keeps of addresses in the site's networks, also of those that nova removed before."""
    own = re.compile(rf"strata-{re.escape(site)}-(control|[0-9a-f]{{8}})")
    for directory in LEASES.glob(f"strata-{site}-*"):
        if own.fullmatch(directory.name):  # not of a site whose name begins like this one's
            shutil.rmtree(directory, ignore_errors=True)
