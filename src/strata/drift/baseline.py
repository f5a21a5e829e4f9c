"""What Ansible put on each host: files with their digests, units with their states.

Two plugins of ours write it while a playbook runs: the action plugins of our own modules, which know what they want
before `no_log` hides it, and a callback for the builtin modules. Only a host on which the whole playbook succeeded
gets a new manifest, so what is recorded is the desired state of the last successful run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from strata.site.outputs import write_private
from strata.site.paths import SitePaths

TRUSTED_SECONDS = 24 * 3600.0
"""The success of a run is believed for a day: not everything that it looks after is compared."""
RUN_VARIABLE = "STRATA_MANIFEST_RUN"
"""Environment variable with the directory of the playbook under way; Ansible's workers inherit it."""


class ManagedFile(BaseModel):
    """A file as it was put there.

    Args:
        digest: `algorithm:hex` of its content.
        mode: octal, four digits; None where the task left it open.
        owner: user name or number; None where the task left it open.
        group: likewise.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    mode: str | None = None
    owner: str | None = None
    group: str | None = None


class ManagedUnit(BaseModel):
    """A systemd unit.

    Args:
        active: it shall run; None where that was left open.
        enabled: it shall start at boot; None where that was left open.
    """

    model_config = ConfigDict(frozen=True)

    active: bool | None = None
    enabled: bool | None = None


class HostBaseline(BaseModel):
    """What one playbook put on one host."""

    files: dict[str, ManagedFile] = {}
    units: dict[str, ManagedUnit] = {}


def directory(paths: SitePaths, playbook: str) -> Path:
    """Where the manifests of a playbook are."""
    return paths.root / "manifests" / playbook


def load(paths: SitePaths, playbook: str, host: str) -> HostBaseline | None:
    """The manifest of a host; None before the playbook succeeded there."""
    file = directory(paths, playbook) / f"{host}.json"
    return HostBaseline.model_validate_json(file.read_text()) if file.exists() else None


def content_digest(content: str) -> str:
    """Digest of a text as it is stored in a file."""
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def wanted_file(file: Mapping[str, str]) -> ManagedFile:
    """One entry of the option `files` of our modules; root owns what names no owner."""
    return ManagedFile(
        digest=content_digest(file["content"]),
        mode=f"{int(file.get('mode', '0644'), 8):04o}",
        owner=file.get("owner") or "root",
        group=file.get("group") or "root",
    )


def note(
    host: str,
    *,
    files: Mapping[str, ManagedFile] | None = None,
    units: Mapping[str, ManagedUnit] | None = None,
    removed: Sequence[str] = (),
) -> None:
    """Adds to the manifest of the run under way; does nothing outside of one.

    `removed` are paths that the run itself has taken away again, such as a file with a token, or its directory.

    One line per call: appending it is atomic, and Ansible's workers write in parallel.
    """
    run = os.environ.get(RUN_VARIABLE)
    if not run:
        return
    entry = HostBaseline(files=dict(files or {}), units=dict(units or {}))
    Path(run).mkdir(parents=True, exist_ok=True, mode=0o700)
    line = json.dumps(entry.model_dump(exclude_none=True) | {"removed": list(removed)}) + "\n"
    descriptor = os.open(Path(run) / f"{host}.jsonl", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def finish(paths: SitePaths, playbook: str, run: Path, failed: set[str], *, partial: bool) -> None:
    """Makes what a run noted the manifest of its hosts.

    Args:
        paths: the site's.
        playbook: name without its ending.
        run: directory that the run's notes are in; removed.
        failed: hosts whose manifest stays as it was.
        partial: only some tasks ran (tags), so what is not mentioned stays.
    """
    for file in sorted(run.glob("*.jsonl")):
        host = file.stem
        if host in failed:
            continue
        kept = load(paths, playbook, host) if partial else None
        files = dict(kept.files) if kept else {}
        units = {name: unit.model_dump() for name, unit in kept.units.items()} if kept else {}
        for line in file.read_text().splitlines():
            entry: dict[str, Any] = json.loads(line)
            files |= {path: ManagedFile.model_validate(f) for path, f in entry["files"].items()}
            for removed in entry["removed"]:
                files = {path: f for path, f in files.items() if not Path(path).is_relative_to(removed)}
            for name, unit in entry["units"].items():
                units[name] = units.get(name, {}) | unit
        manifest = HostBaseline(files=files, units={n: ManagedUnit.model_validate(u) for n, u in units.items()})
        target = directory(paths, playbook)
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(target / f"{host}.json", manifest.model_dump_json(indent=1, exclude_none=True))
    shutil.rmtree(run, ignore_errors=True)
