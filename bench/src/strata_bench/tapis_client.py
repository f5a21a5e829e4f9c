"""The unmodified client of Tapis, in an environment of its own."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from strata.site.paths import REPOSITORY

PROJECT = REPOSITORY / "bench" / "tapipy"
SECONDS = 120


@functools.cache
def tapipy_python() -> Path:
    """Interpreter with tapipy, which bench/tapipy/uv.lock pins with what it needs, by their hashes."""
    command = ["uv", "sync", "--quiet", "--frozen", f"--project={PROJECT}"]
    subprocess.run(command, check=True, env={k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"})
    return PROJECT / ".venv" / "bin" / "python"


def run_tapipy(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that may import tapipy.

    Args:
        script: Python.
        variables: of its environment, where passwords and tokens belong.
    """
    return subprocess.run(
        [str(tapipy_python()), "-"],
        input=script,
        # proxies of the machine know neither loopback nor the lab's names
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
