"""The uv.lock of a new service: what it needs is pinned as strata-http has it, so no package index is asked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

HEADING = "[[package]]\n"


def complete_lock(project: Path, package: Path) -> None:
    """Adds to a project's lock all that it needs.

    Args:
        project: directory whose uv.lock has the project's own entry alone; its requirements are among the package's.
        package: directory of the package that it takes from a folder beside it, with a complete uv.lock.
    """
    head, *entries = (package / "uv.lock").read_text().split(HEADING)
    own = (project / "uv.lock").read_text().removeprefix(HEADING)
    locked = {text: _parsed(text) for text in (own, *(_as_dependency(entry, package) for entry in entries))}
    needed = _needed(list(locked.values()), _parsed(own)["name"])
    kept = sorted((entry["name"], entry["version"], text) for text, entry in locked.items() if entry["name"] in needed)
    blocks = [f"{HEADING}{text.rstrip()}\n" for _, _, text in kept]
    (project / "uv.lock").write_text(head + "\n".join(blocks))


def _parsed(entry: str) -> dict[str, Any]:
    (package,) = tomllib.loads(HEADING + entry)["package"]
    return dict(package)


def _as_dependency(entry: str, package: Path) -> str:
    """The package's own entry as another project's lock has it."""
    if 'source = { editable = "." }' not in entry:
        return entry
    entry = entry.replace('editable = "."', f'editable = "../{package.name}"')
    return re.sub(r"\[package\.dev-dependencies\]\n.*?\n\n(?=\[)", "", entry, flags=re.DOTALL)


def _needed(entries: list[dict[str, Any]], root: str) -> set[str]:
    """Names of what the root needs, with the extras that are asked for."""
    needed: set[tuple[str, str]] = set()
    waiting = [(root, "")]
    while waiting:
        name, extra = pair = waiting.pop()
        if pair in needed:
            continue
        needed.add(pair)
        for entry in (e for e in entries if e["name"] == name):
            needs = entry.get("optional-dependencies", {}).get(extra, ()) if extra else entry.get("dependencies", ())
            waiting += [(need["name"], more) for need in needs for more in ("", *need.get("extra", ()))]
    return {name for name, _ in needed}
