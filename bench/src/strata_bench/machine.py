"""The machine that measures."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from statistics import fmean

from strata.site.paths import REPOSITORY
from strata_bench.model import Machine


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
        load_before=round(running(), 2),
    )


def running(seconds: float = 3.0, statistics_file: Path = Path("/proc/stat")) -> float:
    """How many processes ran or could have, this one left out, on average over some seconds from now.

    The load average would still hold what ended a minute ago, such as the lab that the benchmark before this one made.
    """
    samples: list[int] = []
    end = time.monotonic() + seconds
    while not samples or time.monotonic() < end:
        match = re.search(r"^procs_running (\d+)", statistics_file.read_text(), re.M)
        samples.append(max(int(match[1]) - 1, 0) if match else 0)
        time.sleep(0.05)
    return fmean(samples)


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
