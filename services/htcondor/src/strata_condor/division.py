"""Divides the queue that all tenants had in common among their schedds, before the schedds start.

Jobs keep their numbers, files and history. It can be killed at any time: until `dividing` exists, nothing has changed;
from then on, each step is a rename, and the next run goes on with those that are left.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from strata_condor.job_queue import JobQueue, tenant_of

SPOOL = Path("/condor/spool")
TENANTS = "tenants"
"""With a folder for each tenant, the SPOOL of its schedd."""
QUEUE = "job_queue.log"
NEW, DIVIDING, UNDIVIDED = "dividing.new", "dividing", "undivided"
"""While it is written; complete, to be moved; what the one schedd had, for the operator."""
HISTORIES = ("history*", "epoch_history*")
END = re.compile(rb"\*\*\* ")
"""Of the line after each ad of a history."""
OFFSET, OWNER = re.compile(rb"Offset = \d+"), re.compile(rb'Owner ?= ?"([^"]*)"')
JOB_FILES = re.compile(r"cluster(\d+)\.")


def divide(spool: Path, tenants: Collection[str]) -> None:
    """Divides an undivided queue, and makes the tenants' folders.

    Args:
        spool: of the access point.
        tenants: of the site.

    Raises:
        FileExistsError: the queue has been divided before.
        ValueError: the job queue log has an entry of another version.
    """
    new, dividing, queue = spool / NEW, spool / DIVIDING, spool / QUEUE
    if queue.exists() and not dividing.exists():
        if (spool / UNDIVIDED / QUEUE).exists():
            raise FileExistsError(
                f"{queue}: the queue has been divided before, and an earlier release made another one"
            )
        shutil.rmtree(new, ignore_errors=True)
        _write(spool, new)
        new.rename(dividing)
    (spool / TENANTS).mkdir(exist_ok=True)
    if dividing.exists():
        _move_files(spool, dividing)
        for folder in list(dividing.iterdir()):
            folder.rename(spool / TENANTS / folder.name)
        (spool / UNDIVIDED).mkdir(exist_ok=True)
        for path in list(spool.iterdir()):
            if path.name not in (TENANTS, DIVIDING, UNDIVIDED):
                path.rename(spool / UNDIVIDED / path.name)
        dividing.rmdir()
    for tenant in tenants:
        (spool / TENANTS / tenant).mkdir(exist_ok=True)


def _write(spool: Path, new: Path) -> None:
    """Queue and histories of each tenant that has jobs."""
    new.mkdir()
    whole = JobQueue.read((spool / QUEUE).read_text(errors="surrogateescape").splitlines())
    for tenant, queue in whole.by_tenant().items():
        (new / tenant).mkdir()
        with (new / tenant / QUEUE).open("w", errors="surrogateescape") as file:
            (new / tenant / QUEUE).chmod(0o600)
            file.writelines(f"{line}\n" for line in queue.moved(str(spool), str(spool / TENANTS / tenant)).lines())
            file.flush()
            os.fsync(file.fileno())
        print(f"{tenant}: {len(queue.clusters())} clusters", flush=True)
    for pattern in HISTORIES:
        for path in sorted(spool.glob(pattern)):
            _divide_history(path, new)


def _divide_history(path: Path, new: Path) -> None:
    for owner, ad, end in _ads(path):
        tenant = tenant_of(owner.decode(errors="replace"))
        if tenant is None:
            continue
        (new / tenant).mkdir(exist_ok=True)
        with (new / tenant / path.name).open("ab") as file:
            # where the ad begins
            file.write(ad + OFFSET.sub(b"Offset = %d" % file.tell(), end, count=1))


def _ads(path: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Owner, text and last line of each ad of a history."""
    lines: list[bytes] = []
    with path.open("rb") as file:
        for line in file:
            if not END.match(line):
                lines.append(line)
                continue
            text = b"".join(lines)
            match = OWNER.search(line) or OWNER.search(text)
            yield match[1] if match else b"", text, line
            lines = []


def _move_files(spool: Path, dividing: Path) -> None:
    """Job files of each tenant: SPOOL/<cluster>/cluster… and SPOOL/<cluster>/<process>/cluster…"""
    for folder in dividing.iterdir():
        log = folder / QUEUE
        if not log.exists():
            continue
        clusters = JobQueue.read(log.read_text(errors="surrogateescape").splitlines()).clusters()
        for path in [*spool.glob("[0-9]*/cluster*"), *spool.glob("[0-9]*/[0-9]*/cluster*")]:
            match = JOB_FILES.match(path.name)
            if match and int(match[1]) in clusters:
                target = folder / path.relative_to(spool)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)


def main() -> None:
    """Divides the queue of the access point."""
    try:
        divide(SPOOL, [name for name in os.environ["STRATA_TENANTS"].split(",") if name])
    except (FileExistsError, ValueError) as error:
        sys.exit(f"error: {error}")
