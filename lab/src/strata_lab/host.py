"""What the lab changes on its host, done once and undone with the last site."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from strata.engine.run_lock import machine_lock
from strata.errors import UserError
from strata.site.outputs import write_private
from strata.site.paths import state_directory

CGROUPS = Path("/sys/fs/cgroup")
KNOWN_CONTROLLERS = Path("/proc/cgroups")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
"""Lets the kernel follow the connections of bridged packets, which security groups need."""
INOTIFY_INSTANCES = 1024
"""A node's systemd, kubelet and containerd take about 13; nine nodes use up Debian's default of 128 for all of root's
processes, and the next container's systemd exits with 255 and prints nothing."""
NEEDED_CONTROLLERS = ("hugetlb", "perf_event", "net_cls", "net_prio")
"""cgroup v1 controllers that kubelet and runc look for and that a container host may not have mounted."""


@dataclass
class HostRecord:
    """What was changed, and for whom.

    Args:
        mounted: cgroup v1 controllers that Strata mounted.
        forwarding: value of ip_forward before Strata set it; None where it was on.
        inotify: value of fs.inotify.max_user_instances before Strata raised it; None where it was enough.
        bridge_filter: value of bridge-nf-call-iptables before Strata set it; None where it was on.
        sites: the sites that use the host.
    """

    mounted: list[str] = field(default_factory=list)
    forwarding: str | None = None
    inotify: str | None = None
    bridge_filter: str | None = None
    sites: list[str] = field(default_factory=list)


def prepare(site: str) -> bool:
    """Mounts missing cgroup v1 controllers, turns IP forwarding on, and lets many systemds watch their files.

    Args:
        site: that needs the host.

    Returns:
        Whether anything on the host was changed.

    Raises:
        UserError: the kernel refused a mount or a setting.
    """
    with _record() as record:
        changed = False
        for controller in missing_controllers():
            _mount(controller)
            # after a reboot it is in the record and is not mounted
            record.mounted = sorted({*record.mounted, controller})
            changed = True
        before = FORWARDING.read_text().strip()
        if before != "1":
            _set(FORWARDING, "1")
            record.forwarding = before
            changed = True
        before = INOTIFY.read_text().strip()
        if int(before) < INOTIFY_INSTANCES:
            _set(INOTIFY, str(INOTIFY_INSTANCES))
            record.inotify = before
            changed = True
        if not BRIDGE_FILTER.exists():
            _load("br_netfilter")
        before = BRIDGE_FILTER.read_text().strip()
        if before != "1":
            _set(BRIDGE_FILTER, "1")
            record.bridge_filter = before
            changed = True
        if site not in record.sites:
            record.sites.append(site)
        return changed


def restore(site: str) -> list[str]:
    """Undoes the changes when the last site goes.

    Returns:
        What could not be undone because others use it.
    """
    with _record() as record:
        record.sites = [name for name in record.sites if name != site]
        if record.sites:
            return []
        left: list[str] = []
        for controller in list(record.mounted):
            directory = CGROUPS / controller
            done = subprocess.run(["umount", str(directory)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                directory.rmdir()
            if done.returncode == 0 or not directory.is_mount():
                record.mounted.remove(controller)
            else:
                left.append(f"{directory}: {done.stderr.strip()}")
        if record.forwarding is not None:
            _set(FORWARDING, record.forwarding)
            record.forwarding = None
        if record.inotify is not None:
            _set(INOTIFY, record.inotify)
            record.inotify = None
        if record.bridge_filter is not None:
            _set(BRIDGE_FILTER, record.bridge_filter)
            record.bridge_filter = None
        return left


def missing_controllers() -> list[str]:
    """cgroup v1 controllers to mount; none on a host with cgroup v2 only."""
    if (CGROUPS / "cgroup.controllers").exists():
        return []
    rows = [line.split() for line in KNOWN_CONTROLLERS.read_text().splitlines() if not line.startswith("#")]
    enabled = {row[0] for row in rows if row[3] == "1"}
    return [name for name in NEEDED_CONTROLLERS if name in enabled and not (CGROUPS / name).is_mount()]


def _mount(controller: str) -> None:
    directory = CGROUPS / controller
    directory.mkdir(exist_ok=True)
    command = ["mount", "-t", "cgroup", "-o", controller, "cgroup", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        directory.rmdir()
        raise UserError(
            f"cgroup controller {controller} could not be mounted: {done.stderr.strip()}",
            fix="run as root on a machine (not in an unprivileged container)",
        )


def _load(module: str) -> None:
    """Loads a module of the kernel; it stays, as those stay that podman loads."""
    command = ["modprobe", module]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stderr.strip() if done.returncode != 0 else ""
    except FileNotFoundError:
        said = "there is no modprobe"
    if said:
        raise UserError(
            f"the kernel's module {module} could not be loaded: {said}",
            fix=f"a kernel with {module}; in a container, load it on the machine itself",
        )


def _set(setting: Path, value: str) -> None:
    try:
        setting.write_text(value)
    except OSError as error:
        raise UserError(
            f"{setting} could not be set to {value}: {error}", fix="run as root; a container needs --privileged"
        ) from error


@contextmanager
def _record() -> Iterator[HostRecord]:
    """The record of this host, locked while it is in use and removed when it is empty."""
    file = state_directory() / "host.json"
    with machine_lock("host"):
        stored: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        known = {field.name for field in fields(HostRecord)}
        if unknown := stored.keys() - known:
            raise UserError(
                f"{file}: {', '.join(sorted(unknown))}: written by a newer Strata, which changed more on this machine",
                fix="use the checkout that brought up the sites of this machine",
            )
        record = HostRecord(**stored)
        try:
            yield record
        finally:
            if record == HostRecord():
                file.unlink(missing_ok=True)
            else:
                write_private(file, json.dumps(vars(record), indent=1) + "\n")
