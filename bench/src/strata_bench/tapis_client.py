"""The unmodified client of Tapis, in an environment of its own."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from strata.site.paths import REPOSITORY
from strata_bench.services import locked_programs

PROJECT = REPOSITORY / "bench" / "tapipy"
SECONDS = 600


@functools.cache
def tapipy_python(*groups: str) -> Path:
    """Interpreter with tapipy, which bench/tapipy/uv.lock pins with what it needs, by their hashes.

    Args:
        groups: of further packages, from bench/tapipy/pyproject.toml.
    """
    chosen = [option for group in groups for option in ("--group", group)]
    # others may run in the environment now
    return locked_programs(PROJECT, "--inexact", *chosen) / "python"


HOSTS = """
import json, os, socket
_names, _found = json.loads(os.environ["HOSTS"]), socket.getaddrinfo
socket.getaddrinfo = lambda host, *arguments, **options: _found(_names.get(host, host), *arguments, **options)
"""
"""What the name servers of a user's computer know."""


def documented_lines(document: str = "api.md") -> str:
    """The program of a document: its blocks of Python, which begin with an `import`, or with a line that Python has.

    Args:
        document: a file in docs/.
    """
    text = (REPOSITORY / "docs" / document).read_text()
    blocks = [block for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL) if _is_python(block)]
    assert blocks, f"docs/{document} has no Python"
    return "".join(blocks)


def _is_python(block: str) -> bool:
    try:
        ast.parse(block)
    except SyntaxError:
        return False
    return True


def run_tapipy(
    script: str, hosts: Mapping[str, str] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program that may import tapipy.

    Args:
        script: Python.
        hosts: name to address, for names that this machine does not resolve.
        variables: of its environment, where passwords and tokens belong.
    """
    return subprocess.run(
        [str(tapipy_python()), "-"],
        input=f"{HOSTS}{script}" if hosts else script,
        # proxies of the machine know neither loopback nor the lab's names
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*", "HOSTS": json.dumps(dict(hosts or {})), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
