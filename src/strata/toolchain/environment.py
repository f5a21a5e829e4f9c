"""How the pinned tools are found by name: a directory of links, and the variables that go with it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from strata.paths import cache_directory
from strata.toolchain import cache
from strata.toolchain.versions import load_versions


def _launcher(module: str) -> str:
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n'


def _entries() -> dict[str, Path | str]:
    """Name → the tool's path, or the text of a launcher for its substitute; tools not there yet are left out."""
    entries: dict[str, Path | str] = {}
    for definition in load_versions().components.values():
        for name in definition.binaries:
            if tool := cache.find(name, definition):
                entries[name] = tool.path
            elif definition.substitute:
                entries[name] = _launcher(definition.substitute)
    return entries


def bin_directory() -> Path:
    """A directory for PATH with the pinned tools that are there, by name.

    The same tools give the same directory, so that a shell that has it on PATH keeps what it started with.
    Call ensure() first; tools that are not in the cache yet are not in it.
    """
    entries = _entries()
    digest = hashlib.sha256(repr(sorted((n, str(e)) for n, e in entries.items())).encode()).hexdigest()[:12]
    directory = cache_directory() / "bin" / digest
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".partial-", dir=directory.parent))
    for name, entry in entries.items():
        if isinstance(entry, Path):
            (staging / name).symlink_to(entry)
        else:
            (staging / name).write_text(entry, encoding="utf-8")
            (staging / name).chmod(0o755)
    staging.chmod(0o755)
    try:
        staging.rename(directory)
    except OSError:  # another run made it meanwhile
        shutil.rmtree(staging)
    return directory


def tools_environment() -> dict[str, str]:
    """The whole environment for running the tools: PATH, and what keeps pulumi from downloading on its own.

    PATH starts with the pinned tools, then this Python's own directory: pulumi's language host takes the first
    `python` on PATH.
    """
    first = [str(bin_directory()), str(Path(sys.executable).parent)]
    rest = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part and part not in first]
    variables = {name: value for name, value in os.environ.items() if name != "PULUMI_IGNORE_AMBIENT_PLUGINS"}
    return variables | {
        "PATH": os.pathsep.join([*first, *rest]),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(cache_directory() / "pulumi"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
