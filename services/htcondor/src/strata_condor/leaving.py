"""Ends what a user who leaves has in the pool: tokens, by HTCondor's own revocation, and jobs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strata_condor.tokens import USER

REVOKED = Path("/condor/spool/revoked.conf")
"""On the volume, so that it outlives the pod; files/common.conf of the chart includes it."""
ENTRY = re.compile(r"# (\S+) ([0-9]+)")
SECONDS = 60.0


def revocation(text: str, subjects: Sequence[str], now: int) -> str:
    """The configuration with the subjects' tokens revoked that were issued until now; later ones are valid.

    Args:
        text: of the file before.
        subjects: `TENANT.USER@DOMAIN`.
        now: in seconds since 1970.
    """
    times = {match[1]: int(match[2]) for line in text.splitlines() if (match := ENTRY.fullmatch(line))}
    times |= dict.fromkeys(subjects, now)
    lines = [f"# {subject} {at}" for subject, at in sorted(times.items())]
    tests = (f'(sub =?= "{subject}" && iat <= {at})' for subject, at in sorted(times.items()))
    return "\n".join([*lines, f"SEC_TOKEN_REVOCATION_EXPR = {' || '.join(tests)}", ""])


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise OSError(f"{command[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _revoke(request: dict[str, Any]) -> list[str]:
    if not USER.fullmatch(request["name"]):
        raise OSError(f"{request['name']!r} is not a user's name")
    domain = _output("condor_config_val", "UID_DOMAIN").strip()
    subjects = [f"{tenant}.{request['name']}@{domain}" for tenant in request["tenants"]]
    if not request["dry_run"]:
        new = REVOKED.with_suffix(".new")
        before = REVOKED.read_text() if REVOKED.exists() else ""
        new.write_text(revocation(before, subjects, int(time.time())))
        new.replace(REVOKED)
        # the master, which has its daemons read the configuration
        os.kill(1, signal.SIGHUP)
    return ["tokens"]


def submitters() -> set[str]:
    """Everyone with jobs in the pool, as in AccountingGroup; the collector learns of it within `SCHEDD_INTERVAL`.

    Raises:
        OSError: the pool does not respond.
    """
    names = _output("condor_status", "-submitters", "-af", "Name").split()
    return {name.rpartition("@")[0] for name in names}


def remove_jobs(*owners: str, dry_run: bool = False) -> int:
    """Removes the jobs of owners, `TENANT.USER`, at every access point of the pool, with the pool's own rights.

    Returns:
        how many there were.

    Raises:
        OSError: the pool does not respond.
    """
    constraint, number = f'stringListMember(Owner, "{",".join(owners)}")', 0
    for schedd in _output("condor_status", "-schedd", "-af", "Name").split():
        query = ("condor_q", "-name", schedd, "-all", "-constraint", constraint, "-af", "ClusterId")
        if count := len(_output(*query).split()):
            number += count
            if not dry_run:
                _output("condor_rm", "-name", schedd, "-constraint", constraint)
    return number


def _remove_jobs(request: dict[str, Any]) -> list[str]:
    owners = (f"{tenant}.{request['name']}" for tenant in request["tenants"])
    number = remove_jobs(*owners, dry_run=request["dry_run"])
    return [f"{number} batch jobs"] if number else []


def _answer(*steps: Any) -> None:
    request = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"ended": [text for step in steps for text in step(request)]}
    except (OSError, subprocess.TimeoutExpired) as error:
        answer = {"problem": str(error)}
    json.dump(answer, sys.stdout)


def revoke() -> None:
    """Revokes the tokens at the daemons of this pod; input and output as `LeavingProgram` describes."""
    _answer(_revoke)


def leave() -> None:
    """Also removes the jobs."""
    _answer(_revoke, _remove_jobs)
