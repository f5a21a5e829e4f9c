"""Processors of the container."""

from __future__ import annotations

import math
import os
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
