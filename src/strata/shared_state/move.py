"""Moves state between the local directory and the bucket, verified byte by byte."""

from __future__ import annotations

import json
from collections.abc import Sequence

from strata.errors import UserError
from strata.models.state import SharedState
from strata.progress import Progress
from strata.shared_state.bucket import Conflict
from strata.shared_state.session import lock
from strata.shared_state.snapshot import IDENTITY, Files, digest, read_files
from strata.shared_state.working_copy import MOVED, WorkingCopy
from strata.site.paths import SitePaths


def describe(paths: SitePaths, state: SharedState, *, back: bool) -> Sequence[str]:
    """Returns what a move will do, one sentence a line.

    Raises:
        UserError: the directory is a working copy already.
    """
    copy, files = WorkingCopy(paths, state), read_files(paths.root)
    size = sum(len(file.content) for file in files.values()) / 1024
    if back:
        return (
            f"save unsaved changes, and verify {paths.root} against the newest snapshot in {copy.bucket.url}",
            f"make {paths.root} the state of site {paths.site}; {copy.bucket.url} refuses every operator from then on",
            "next: remove state from site.yaml",
        )
    _require_local(copy)
    readers = ", ".join(operator.name for operator in state.operators) or "the passphrase"
    return (
        f"encrypt {len(files)} files ({size:.0f} KiB) of {paths.root} to {readers}",
        f"upload them to {copy.bucket.url} as snapshot {copy.newest() + 1}, and verify every byte",
        f"make {paths.root} a working copy; it is refused if site.yaml has no state",
    )


def to_bucket(paths: SitePaths, state: SharedState, progress: Progress) -> int:
    """Moves the local state to the bucket; returns the generation. Interrupted, the same command resumes.

    Raises:
        UserError: the directory is a working copy already, or the bucket has other state of this site.
    """
    copy = WorkingCopy(paths, state)
    _require_local(copy)
    files = read_files(paths.root)
    if not files:
        raise UserError(f"{paths.root} has no state to move", fix="`strata up` creates it in the bucket")
    with lock(copy, "state move", progress):
        newest = copy.newest()
        moved = copy.bucket.get(MOVED)
        came_back = moved is not None and json.loads(moved.body)["generation"] == newest
        if newest and not came_back:
            if digest(copy.fetch(newest)) != digest(files):
                raise UserError(
                    f"{copy.bucket.url} has state of a site {paths.site} that differs from {paths.root}",
                    fix="choose another state.s3.prefix; or, if the bucket is right, `strata state discard`",
                )
        else:
            progress.update(f"uploading {len(files)} files")
            copy.push()
            copy.forget()  # until it is verified
            newest = copy.newest()
        _verify(copy, newest, files)
        copy.adopt(newest, files)
    return newest


def to_directory(paths: SitePaths, state: SharedState, progress: Progress) -> int:
    """Makes the working copy local state and refuses the bucket from then on; returns the last generation.

    Raises:
        UserError: the state cannot be downloaded or verified.
    """
    copy = WorkingCopy(paths, state)
    with lock(copy, "state move", progress):
        newest, old = copy.newest(), copy.bucket.get(MOVED)
        marker = json.loads(old.body) if old else {}
        if marker.get("generation") != newest or marker.get("copy") != copy.record.copy:  # else it was interrupted
            copy.pull()
            copy.push()
            newest = copy.newest()
            _verify(copy, newest, read_files(paths.root))
            me = copy.holder("state move")
            marker = {"operator": me.operator, "host": me.host, "since": me.since, "copy": me.copy}
            try:
                copy.bucket.put(
                    MOVED, json.dumps(marker | {"generation": newest}).encode(), replacing=old.etag if old else None
                )
            except Conflict as error:
                raise UserError(f"another operator moves {copy.bucket.url}", fix="repeat the command") from error
    copy.forget()
    (paths.root / IDENTITY).unlink(missing_ok=True)
    return newest


def _require_local(copy: WorkingCopy) -> None:
    if not copy.is_new:
        raise UserError(f"state of site {copy.paths.site} is in {copy.bucket.url} already", fix="nothing to move")


def _verify(copy: WorkingCopy, generation: int, files: Files) -> None:
    if not generation:
        return
    fetched = copy.fetch(generation)
    if digest(fetched) != digest(files):
        raise UserError(
            f"snapshot {generation} in {copy.bucket.url} differs from {copy.paths.root}: nothing was moved",
            fix="repeat the command; if it fails again, the S3 server does not store what it is given",
        )
