"""Processors of the container, and threads that compute on them."""

from __future__ import annotations

import math
import os
from collections.abc import MutableMapping
from pathlib import Path


def usable_processors(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Processors that the container may use: PyTorch counts those of the node.

    Args:
        cgroup: of version 2, or 1 with the controller `cpu`.
    """
    available = len(os.sched_getaffinity(0))
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota, period = (
                (cgroup / "cpu" / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")
            )
    except OSError:
        return available
    if quota in {"max", "-1"}:
        return available
    return max(1, min(available, math.ceil(int(quota) / int(period))))


def limit_threads(environment: MutableMapping[str, str]) -> None:
    """Sets what OpenMP and OpenBLAS read when a process loads them; values that are there stay.

    By default, their threads are as many as the node's processors, and wait for each other by spinning: beside other
    processes, and with a limit of the container's CPU time, that takes most of the time (docs/decisions/0118).

    Args:
        environment: of the process that starts the model's.
    """
    environment.setdefault("OMP_NUM_THREADS", str(usable_processors()))
    environment.setdefault("OMP_WAIT_POLICY", "passive")
