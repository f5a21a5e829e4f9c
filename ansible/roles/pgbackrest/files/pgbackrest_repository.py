"""The repository of pgBackRest: its backups, and which of them leads to a moment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STANZA = "postgresql"
NO_STANZA, NO_BACKUP = 1, 2
"""Status codes of `pgbackrest info`."""
QUERY_SECONDS = 60.0


class PgBackRestError(Exception):
    """What went wrong, for the operator."""


@dataclass(frozen=True)
class Backup:
    """One backup of the repository.

    Args:
        label: pgBackRest's name.
        kind: full, diff or incr.
        start: Unix time.
        stop: Unix time; the earliest moment to which it can be restored.
        size: of the server's files, in bytes.
        timeline: of its last WAL.
        end: position in the WAL (LSN) at which it is consistent.
    """

    label: str
    kind: str
    start: float
    stop: float
    size: int
    timeline: int
    end: int


def pgbackrest(*arguments: str, seconds: float | None = None) -> str:
    """Output of pgBackRest, run as the owner of the server.

    Raises:
        PgBackRestError: it failed; with its messages.
    """
    command = ("runuser", "-u", "postgres", "--", "pgbackrest", f"--stanza={STANZA}", *arguments)
    try:
        # in a directory that postgres may enter
        done = subprocess.run(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PgBackRestError(f"pgbackrest {arguments[-1]}: no answer within {seconds:.0f} s") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if "ERROR" in line or "HINT" in line]
        raise PgBackRestError("; ".join(lines[:2]) or f"pgbackrest {arguments[-1]}: status {done.returncode}")
    return done.stdout


def information() -> Mapping[str, Any]:
    """What `pgbackrest info` reports of the stanza."""
    (stanza,) = json.loads(pgbackrest("--output=json", "info", seconds=QUERY_SECONDS))
    if stanza["status"]["code"] not in (0, NO_STANZA, NO_BACKUP):
        raise PgBackRestError(f"the repository cannot be read: {stanza['status']['message']}")
    return dict(stanza)


def backups(stanza: Mapping[str, Any]) -> list[Backup]:
    """Complete backups in the order of time.

    Args:
        stanza: the stanza's `information`.
    """
    return [
        Backup(
            label=backup["label"],
            kind=backup["type"],
            start=backup["timestamp"]["start"],
            stop=backup["timestamp"]["stop"],
            size=backup["info"]["size"],
            timeline=int(backup["archive"]["stop"][:8], 16),
            end=_position(backup["lsn"]["stop"]),
        )
        for backup in stanza["backup"]
        if not backup.get("error")
    ]


def choose(stanza: Mapping[str, Any], label: str, moment: float | None) -> Backup:
    """The backup from which a moment is reached with the least WAL.

    Args:
        stanza: the stanza's `information`.
        label: that of a backup, or `latest`.
        moment: Unix time; None for the end of the WAL.

    Raises:
        PgBackRestError: no backup leads there.
    """
    known = backups(stanza)
    if not known:
        raise PgBackRestError("the repository has no backup")
    if label != "latest":
        known = [backup for backup in known if backup.label == label]
        if not known:
            raise PgBackRestError(f"there is no backup {label}; `strata-pgbackrest list` prints them")
    if moment is not None:
        early = [backup for backup in known if backup.stop < moment]
        if not early:
            raise PgBackRestError(f"{known[0].label} ended {known[0].stop - moment:.0f} s after that moment")
        known = early
    latest, forks = _latest_timeline(stanza), _forks(stanza)
    # one of a timeline that an earlier restore left does not lead to the present one
    reachable = [
        backup for backup in known if backup.timeline == latest or backup.end <= forks.get(backup.timeline, -1)
    ]
    if not reachable:
        raise PgBackRestError(f"{known[-1].label} was taken on a timeline that an earlier restore left")
    return reachable[-1]


def _latest_timeline(stanza: Mapping[str, Any]) -> int:
    return max((int(archive["max"][:8], 16) for archive in stanza["archive"] if archive["max"]), default=1)


def _forks(stanza: Mapping[str, Any]) -> dict[int, int]:
    """Earlier timelines that led to the latest one, and the position at which each ended."""
    latest = _latest_timeline(stanza)
    if latest == 1:
        return {}
    # postgres writes into it
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o777)
        history = directory / "history"
        pgbackrest("archive-get", f"{latest:08X}.history", str(history), seconds=QUERY_SECONDS)
        return forks(history.read_text().splitlines())


def forks(history: Sequence[str]) -> dict[int, int]:
    """Timeline to the position at which it ended, from the lines of a timeline's history file."""
    fields = (line.split() for line in history if line.strip() and not line.lstrip().startswith("#"))
    return {int(line[0]): _position(line[1]) for line in fields}


def _position(text: str) -> int:
    """A position in the WAL, from `0/5000028`."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
