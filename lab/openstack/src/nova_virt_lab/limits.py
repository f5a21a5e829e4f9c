"""How much of the machine an instance may use: its flavor, as limits of the container's control groups."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nova.virt.lab.podman import podman

CPUS_LABEL = "strata.cpus"
"""Label with the CPUs that a container is bound to, `0,3`."""


def least_used(vcpus: int, machine: Iterable[int], bound: Iterable[Sequence[int]]) -> list[int]:
    """The CPUs that an instance is bound to: as many as it has vCPUs, those that others use least.

    A flavor with more vCPUs than the machine has CPUs gets all of them.

    Args:
        vcpus: of the flavor.
        machine: numbers of the machine's CPUs.
        bound: CPUs of each other instance.
    """
    used = Counter(cpu for cpus in bound for cpu in cpus)
    return sorted(sorted(machine, key=lambda cpu: (used[cpu], cpu))[:vcpus])


def cpus(vcpus: int) -> list[int]:
    """CPUs for a new instance. Call it under the lock that also covers its creation."""
    machine = os.sched_getaffinity(0)
    if vcpus >= len(machine):
        return sorted(machine)
    # all sites' instances share the machine
    listing = podman("ps", "--format", "json", "--filter", f"label={CPUS_LABEL}")
    others = [(c.get("Labels") or {})[CPUS_LABEL] for c in json.loads(listing or "[]") or []]
    return least_used(vcpus, machine, [[int(cpu) for cpu in text.split(",")] for text in others])


def arguments(flavor: Any) -> list[str]:
    """Options of `podman create` that hold an instance to its flavor.

    A set of CPUs, unlike a share of time, is also what `nproc` and every runtime inside sees.

    Args:
        flavor: nova's; vcpus and memory_mb are read.
    """
    chosen = ",".join(map(str, cpus(flavor.vcpus)))
    memory = f"{flavor.memory_mb}m"
    return [
        *("--cpuset-cpus", chosen, "--label", f"{CPUS_LABEL}={chosen}"),
        # the same figure twice: no swap beyond the memory
        *("--memory", memory, "--memory-swap", memory),
    ]
