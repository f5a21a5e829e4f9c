"""A second site on the machine of the lab."""

from __future__ import annotations

import subprocess
from pathlib import Path

from strata.access.podman import SITE_LABEL
from strata.site.paths import SitePaths


def traces(name: str) -> list[str]:
    """What there is of a site on this machine: state, podman's objects, packet filters, mounts."""
    label = f"--filter=label={SITE_LABEL}={name}"
    commands = {
        "container": ["podman", "ps", "--all", label, "--format={{.Names}}"],
        "network": ["podman", "network", "ls", label, "--format={{.Name}}"],
        "volume": ["podman", "volume", "ls", label, "--format={{.Name}}"],
        "packet filter": ["nft", "list", "tables"],
    }
    leftovers = [f"state {path}" for path in [SitePaths(name).root] if path.exists()]
    for kind, command in commands.items():
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        leftovers += [f"{kind} {line}" for line in lines if kind != "packet filter" or f"strata-{name}" in line]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return leftovers + [f"mount {line.split()[4]}" for line in mounts if f"strata-{name}" in line]
