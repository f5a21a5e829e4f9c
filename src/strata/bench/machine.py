"""The machine that measures."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path

from strata.bench.model import Machine
from strata.paths import REPOSITORY


def describe() -> Machine:
    """This machine, now."""
    processors = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", processors, re.M)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', Path("/etc/os-release").read_text(), re.M)
    return Machine(
        processor=model[1] if model else platform.machine(),
        processors=len(os.sched_getaffinity(0)),
        memory_gib=round(int(memory[1]) / 2**20, 1) if memory else 0.0,
        kernel=platform.release(),
        system=release[1] if release else platform.system(),
        date=time.strftime("%Y-%m-%d"),
        commit=_commit(),
        load_before=round(os.getloadavg()[0], 2),
    )


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
