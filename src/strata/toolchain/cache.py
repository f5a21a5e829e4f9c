"""Tools on disk: one directory per tool, version and inputs, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from strata.site.paths import REPOSITORY, cache_directory
from strata.toolchain.versions import Component, architecture

_RECORD = "tool.json"
_CHUNK = 1 << 20
_LOCK_POLL = 0.2


class Source(StrEnum):
    """Where a tool came from."""

    MIRROR = "mirror"
    RELEASE = "release"
    BUILD = "build"


@dataclass(frozen=True)
class Tool:
    """An executable that is there.

    Args:
        name: of the binary.
        version: as pinned.
        path: of the executable in the cache.
        source: where it came from.
        sha256: of the executable.
        seconds: what it took to have it, the first time; shared by the binaries of one component.
        note: whether a build gave the pinned bits; empty when there is nothing to compare.
    """

    name: str
    version: str
    path: Path
    source: Source
    sha256: str
    seconds: float
    note: str = ""


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file."""
    digest = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def inputs_hash(component: Component) -> str:
    """Twelve digits that change with whatever the component's binaries are made from."""
    definition = component.model_dump(
        mode="json", exclude={"on_demand": True, "binaries": {"__all__": {"reproducible", "version_command"}}}
    )
    digest = hashlib.sha256(json.dumps([architecture(), definition], sort_keys=True).encode())
    if component.build is not None:
        root = REPOSITORY / component.build.directory
        for file in sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else []:
            name = file.relative_to(root).as_posix()
            if name.endswith(("_test.go", ".md")) or file.name.startswith(".") or "__pycache__" in file.parts:
                continue
            if file.suffix == ".py" and name not in component.build.companions:
                continue
            digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def tool_directory(name: str, component: Component) -> Path:
    """Where the binary `name` of this component lies once it is there."""
    return cache_directory() / "tools" / name / f"{component.version}-{inputs_hash(component)}"


def find(name: str, component: Component) -> Tool | None:
    """The tool when it is in the cache, whole."""
    directory = tool_directory(name, component)
    try:
        record = json.loads((directory / _RECORD).read_text(encoding="utf-8"))
        size = record.pop("size")
        tool = Tool(**record | {"path": directory / name, "source": Source(record["source"])})
        return tool if tool.path.stat().st_size == size else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(
    name: str,
    component: Component,
    binary: Path,
    *,
    directory: Path,
    source: Source,
    seconds: float,
    note: str = "",
    companions: tuple[Path, ...] = (),
) -> Tool:
    """Moves a finished binary into the cache; afterwards all of it is there, or, after a kill, nothing.

    Args:
        binary: is moved, and must be on the cache's file system.
        directory: of `tool_directory` before the binary was made: its sources may have been edited since.
        companions: files that are copied beside it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".partial-", dir=directory.parent))
    try:
        path = binary.rename(staging / name)
        path.chmod(0o755)
        os.utime(path)
        for file in companions:
            shutil.copy2(file, staging / file.name)
        tool = Tool(name, component.version, directory / name, source, file_digest(path), round(seconds, 1), note)
        record = asdict(tool) | {"size": path.stat().st_size}
        del record["path"]
        (staging / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        staging.chmod(0o755)
        if directory.exists():  # what find() refused
            shutil.rmtree(directory)
        staging.rename(directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return tool


@contextlib.contextmanager
def component_lock(component: str, waiting: Callable[[str], None]) -> Iterator[Path]:
    """Holds the component for this process; yields an empty directory to work in, gone afterwards.

    Args:
        component: its name in versions.yaml.
        waiting: receives a message about the process that holds it, if another does.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # most commands build nothing

    work = cache_directory() / "work"
    work.mkdir(parents=True, exist_ok=True)
    file = work / f"{component}.lock"
    lock = FileLock(file)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_LOCK_POLL)
        except Timeout:
            waiting(file.read_text().strip() or "unknown")
    staging = work / component
    try:
        file.write_text(str(os.getpid()))
        shutil.rmtree(staging, ignore_errors=True)  # what a killed run left
        staging.mkdir()
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        lock.release()


def remove_partial(name: str) -> None:
    """Removes what killed runs left of the tool; call it with the component locked."""
    for leftover in (cache_directory() / "tools" / name).glob(".partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)
