"""How the pinned tools are found by name: a directory for PATH, and pulumi's home with its plugins."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from strata.site.paths import REPOSITORY, cache_directory
from strata.toolchain import cache
from strata.toolchain.versions import load_versions

_PLUGIN = "pulumi-resource-"


def _cached() -> tuple[object, ...]:
    """What decides which tools are found, as long as no source of a tool changes: every stored one is a new entry."""
    tools = cache_directory() / "tools"
    with contextlib.suppress(FileNotFoundError), os.scandir(tools) as entries:
        return tools, *sorted((entry.path, entry.stat().st_mtime_ns) for entry in entries)
    return (tools,)


@lru_cache(maxsize=1)  # every command on a site asks, and hashing the sources of all tools takes 20 ms
def _executables(cached: tuple[object, ...]) -> dict[str, Path]:  # noqa: ARG001 the key
    """Name → file for PATH: the tools that are in the cache, with their companions."""
    files: dict[str, Path] = {}
    for definition in load_versions().components.values():
        for name in definition.binaries:
            if not name.startswith(_PLUGIN) and (tool := cache.find(name, definition)):
                files[name] = tool.path
                for companion in definition.build.companions if definition.build else ():
                    files[companion] = tool.path.parent / companion
    return files


def bin_directory() -> Path:
    """A directory for PATH with the pinned tools that are there, by name.

    The same tools give the same directory, so that a shell that has it on PATH keeps what it started with.
    Call ensure() first; tools that are not in the cache yet are not in it. Pulumi's resource plugins are in
    pulumi_home() instead.
    """
    files = _executables(_cached())
    digest = hashlib.sha256(repr(sorted((name, str(file)) for name, file in files.items())).encode()).hexdigest()[:12]
    directory = cache_directory() / "bin" / digest
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".partial-", dir=directory.parent))
    for name, file in files.items():
        # Hard links: pulumi takes the language host, and that its executor, from where its own file really lies.
        (staging / name).hardlink_to(file)
    staging.chmod(0o755)
    try:
        staging.rename(directory)
    except OSError:  # another run made it meanwhile
        shutil.rmtree(staging)
    return directory


def _plugin(path: Path, target: Path | str) -> None:
    """Puts a link to `target`, or a script with that text, at `path`, in one step."""
    script = isinstance(target, str)
    with contextlib.suppress(OSError):
        if path.read_text(encoding="utf-8") == target if script else path.readlink() == target:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    # a directory of its own: two threads of `status` may come here at once
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as directory:
        staging = Path(directory, path.name)
        if isinstance(target, str):
            staging.write_text(target, encoding="utf-8")
            staging.chmod(0o755)
        else:
            staging.symlink_to(target)
        staging.replace(path)


def pulumi_home() -> Path:
    """PULUMI_HOME with the resource plugins installed as `pulumi plugin install` would, substitutes among them."""
    return _pulumi_home(_cached())


@lru_cache(maxsize=1)
def _pulumi_home(cached: tuple[object, ...]) -> Path:  # noqa: ARG001 the key
    home = cache_directory() / "pulumi"
    for definition in load_versions().components.values():
        for name in definition.binaries:
            if not name.startswith(_PLUGIN):
                continue
            path = home / "plugins" / f"resource-{name.removeprefix(_PLUGIN)}-v{definition.version}" / name
            if tool := cache.find(name, definition):
                _plugin(path, tool.path)
            elif definition.substitute:
                python, source = (
                    shlex.quote(sys.executable),
                    shlex.quote(f"{REPOSITORY / 'src'}:{REPOSITORY / 'lab' / 'src'}"),
                )
                _plugin(path, f'#!/bin/sh\nPYTHONPATH={source} exec {python} -m {definition.substitute} "$@"\n')
    return home


def tools_variables() -> dict[str, str]:
    """The variables that make a shell find and use the tools; none of them is secret.

    PATH starts with the pinned tools, then this Python's own directory: pulumi's language host takes the first
    `python` on PATH.
    """
    first = [str(bin_directory()), str(Path(sys.executable).parent)]
    rest = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part and part not in first]
    return {
        "PATH": os.pathsep.join([*first, *rest]),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(pulumi_home()),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def tools_environment() -> dict[str, str]:
    """The whole environment for running the tools: this process's, with tools_variables()."""
    return dict(os.environ) | tools_variables()
