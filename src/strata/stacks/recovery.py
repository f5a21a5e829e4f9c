"""After a run that was killed: stale locks, orphaned plugins, and the reasons of failures."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from strata.access.openstack import connect, visible_servers
from strata.site.context import SiteContext
from strata.stacks.events import Failure, label
from strata.stacks.pulumi_state import lock_files, read_deployment
from strata.stacks.refusals import answer

INSTANCE, VOLUME = "openstack:compute/instance:Instance", "openstack:blockstorage/volume:Volume"
"""Types of resources."""
MOST_CAUSES = 6
"""More lines than this hide the first, which is the one to read."""


def release_stale_locks(backend: Path, project: str, stack: str) -> int:
    """Removes locks whose process has ended on this machine; returns how many.

    Args:
        backend: directory of the file backend.
        project: name in Pulumi.yaml.
        stack: the stack's name.
    """
    removed = 0
    for file in lock_files(backend, project, stack):
        try:
            lock = json.loads(file.read_text())
        except (OSError, ValueError):
            lock = {}  # killed while it wrote the lock
        elsewhere = lock.get("hostname") not in (None, "", socket.gethostname())
        if elsewhere or _is_pulumi(lock.get("pid")):
            continue
        file.unlink(missing_ok=True)
        removed += 1
    return removed


def repair_cut_writes(state_file: Path) -> list[str]:
    """Repairs the files beside a stack's state that an interrupted pulumi wrote in part.

    Each write goes to a temporary file that is then renamed, but its attributes (`.attrs`) are written in place.

    Args:
        state_file: of the stack, which no running pulumi may have.

    Returns:
        Names of the files that were removed or replaced.
    """
    repaired = []
    backup = state_file.with_name(state_file.name + ".bak")
    for file in (state_file, backup):
        attributes = file.with_name(file.name + ".attrs")
        if attributes.exists() and not _is_json(attributes):
            attributes.unlink()  # none are the default ones
            repaired.append(attributes.name)
    for left in state_file.parent.glob(f"{state_file.name}*.tmp"):
        left.unlink()
        repaired.append(left.name)
    if state_file.exists() and not _is_json(state_file) and _is_json(backup):
        state_file.write_bytes(backup.read_bytes())
        repaired.append(state_file.name)
    return repaired


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def end_orphaned_plugins(backend: str) -> int:
    """Ends plugins of a site whose engine was killed: they do not notice; returns how many.

    Args:
        backend: PULUMI_BACKEND_URL, which identifies the site's plugins.
    """
    ended = 0
    mark = f"PULUMI_BACKEND_URL={backend}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace")
            if not Path(name).name.startswith(("pulumi-resource-", "pulumi-language-")):
                continue
            parent = re.search(r"^PPid:\s*(\d+)", (process / "status").read_text(), re.MULTILINE)
            ours = mark in (process / "environ").read_bytes().split(b"\0")
            if ours and parent and not _is_pulumi(parent[1]):
                os.kill(int(process.name), signal.SIGKILL)  # a bridged provider ignores gentler signals
                ended += 1
        except OSError:
            continue  # ended meanwhile, or another user's
    return ended


def drop_foreign_salt(settings: Path, state_file: Path) -> bool:
    """Removes a stack's settings whose encryption salt is another state's; pulumi re-creates them from the state.

    A site's state may have been deleted, or two states of one name take turns; pulumi would call the passphrase wrong.

    Args:
        settings: Pulumi.<stack>.yaml beside the program.
        state_file: the stack's state, which need not exist.
    """
    if not settings.exists():
        return False
    salt = (yaml.safe_load(settings.read_text()) or {}).get("encryptionsalt")
    kept = None
    if state_file.exists():
        provider = read_deployment(state_file).get("secrets_providers") or {}
        kept = (provider.get("state") or {}).get("salt", salt)
    if salt == kept:
        return False
    settings.unlink()
    return True


def _is_pulumi(process: object) -> bool:
    """Whether this process still runs; its number may belong to another program by now."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0", 1)[0]
    except OSError:
        return False
    return Path(command.decode(errors="replace")).name == "pulumi"


def explain_failures(failures: Sequence[Failure], context: SiteContext) -> list[str]:
    """The failures in words, one line per cause; for an instance with the fault that nova recorded."""
    faults = _faults(context) if any(f.type == INSTANCE for f in failures) else {}
    causes: dict[str, list[Failure]] = {}
    for failure in failures:
        fault = faults.get(failure.name) if failure.type == INSTANCE else None
        cause = f"nova: {fault}" if fault else readable(failure.message)
        if failure.urn not in {f.urn for f in causes.setdefault(cause, [])}:
            causes[cause].append(failure)
    lines = []
    for cause, failed in causes.items():
        names = ", ".join(f"{label(f.type)} {f.name}" for f in failed[:3] if f.urn)
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        lines.append(f"{names}{more}: {cause}" if names else cause)
    return [*lines[:MOST_CAUSES], *([f"and {len(lines) - MOST_CAUSES} more causes"] if lines[MOST_CAUSES:] else [])]


_NOISE = (
    re.compile(r"^\S+\.go:\d+: sdk\.helper_schema: "),
    re.compile(r": provider=\S+$"),
    re.compile(r"^(refreshing|creating|updating|deleting) urn:\S+( failed)?: "),
    re.compile(r"^\d+ errors? occurred:\s*\* "),
    re.compile(r"^error: "),
)
_CONNECTION = re.compile(r"dial tcp ([\w.:\[\]-]+): (?:connect: )?([^:\n]+)")


def readable(message: str) -> str:
    """A provider's message without what only its developers need."""
    if refused := _CONNECTION.search(message):
        return f"cannot connect to {refused[1]}: {refused[2].strip()}"
    before = ""
    while before != message:
        before = message
        for noise in _NOISE:
            message = noise.sub("", message.strip())
    return answer(message)


def _faults(context: SiteContext) -> dict[str, str]:
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    messages: dict[str, str] = {}
    try:
        with connect(context) as connection:
            for server in visible_servers(connection, context, details=True, status="ERROR"):
                fault: dict[str, Any] = server.fault or {}
                if fault.get("message"):
                    messages[server.name] = str(fault["message"])
    except (SDKException, ClientException, OSError):
        return messages  # the provider's own message is shown then
    return messages
