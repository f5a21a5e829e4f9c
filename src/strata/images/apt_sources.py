"""The host's Debian archives, written for another Debian release."""

from __future__ import annotations

import re
from pathlib import Path

from strata.errors import UserError

CODENAMES = {"12": "bookworm", "13": "trixie"}
"""Debian releases that nodes may run."""

_SOURCES = Path("/etc/apt")
_COMPONENT = "main"


def host_codename(os_release: Path = Path("/etc/os-release")) -> str:
    """Code name of the host's Debian release.

    Raises:
        UserError: the file names none.
    """
    match = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', os_release.read_text(), re.MULTILINE)
    if match is None:
        raise UserError(f"{os_release} names no VERSION_CODENAME", fix="use a Debian 12 machine for the lab")
    return match.group(1)


def sources_for(release: str, *, directory: Path = _SOURCES, codename: str | None = None) -> str:
    """One-line apt sources of the host's own mirror for a Debian release.

    Args:
        release: "12" or "13".
        directory: where apt keeps its sources.
        codename: the host's release, read from os-release if not given.

    Raises:
        UserError: the host has no Debian archive among its sources.
    """
    host = codename or host_codename()
    target = CODENAMES[release]
    lines: list[str] = []
    for uri, suite, options in _entries(directory):
        if suite == host or suite.startswith(f"{host}-"):
            lines.append(f"deb {options}{uri} {suite.replace(host, target, 1)} {_COMPONENT}")
    if not any(f" {target} " in line for line in lines):
        raise UserError(
            f"no Debian archive for {host} in {directory}/sources.list or sources.list.d",
            fix="add the Debian mirror that this machine should use",
        )
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _entries(directory: Path) -> list[tuple[str, str, str]]:
    """URI, suite and options of each binary source."""
    entries: list[tuple[str, str, str]] = []
    plain = [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*.list"))]
    for file in plain:
        if file.exists():
            for match in re.finditer(r"^deb\s+(\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s", file.read_text(), re.MULTILINE):
                entries.append((match[2], match[3], match[1] or ""))
    for file in sorted((directory / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if "deb" not in fields.get("Types", "").split() or fields.get("Enabled", "yes").lower() == "no":
                continue
            key = fields.get("Signed-By", "").strip()
            options = f"[signed-by={key}] " if key.startswith("/") else ""
            entries += [
                (u, s, options) for u in fields.get("URIs", "").split() for s in fields.get("Suites", "").split()
            ]
    return entries
