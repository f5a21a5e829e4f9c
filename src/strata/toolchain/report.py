"""What `strata doctor` says about the tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strata.toolchain import cache
from strata.toolchain.versions import load_versions


@dataclass(frozen=True)
class ToolReport:
    """One pinned tool.

    Args:
        name: of the binary.
        version: as pinned.
        source: `mirror`, `release` or `build`; `substitute` for a module of ours; None when it is not there yet.
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


def report() -> list[ToolReport]:
    """Every pinned tool, without fetching or building any."""
    reports = []
    for definition in load_versions().components.values():
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
