"""The state directory as a working copy of the snapshots in the bucket."""

from __future__ import annotations

import getpass
import json
import secrets
import socket
import time
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import quote

from strata.errors import UserError
from strata.models.state import SharedState
from strata.shared_state.bucket import Bucket, Conflict
from strata.shared_state.lease import Holder
from strata.shared_state.record import RECORD, Record, read_record
from strata.shared_state.sealing import seal, unseal
from strata.shared_state.snapshot import IDENTITY, Files, digest, pack, read_files, unpack, write_files
from strata.site.outputs import write_private
from strata.site.paths import SitePaths

MOVED = "moved.json"
SNAPSHOTS = "snapshots/"
KEPT = 10
"""Snapshots in the bucket; the newest one counts."""


class WorkingCopy:
    """A site's state directory, and the snapshots that it is exchanged by. The caller holds the site's local lock.

    Args:
        paths: the state directory.
        state: from the site file.
    """

    def __init__(self, paths: SitePaths, state: SharedState) -> None:
        self.paths, self.state = paths, state
        self.bucket = Bucket(state.s3, paths.site)
        self._saved_by_this_run = 0
        record = read_record(paths)
        self.is_new = record is None
        self.record = record or Record(self.bucket.url, self._identity())
        if self.record.url != self.bucket.url:
            raise UserError(
                f"state of site {paths.site} is in {self.record.url}, the site file has {self.bucket.url}",
                fix="restore state.s3, `strata state move --back`, change state.s3, `strata state move`",
            )

    def holder(self, command: str) -> Holder:
        """Returns what the lock shows of a run on this working copy."""
        if self.is_new:  # if this run is killed before there is a record, the next one knows its lock by this
            write_private(self.paths.root / IDENTITY, self.record.copy)
        return Holder(
            secrets.token_hex(8),
            self.record.copy,
            getpass.getuser(),
            socket.gethostname(),
            command,
            time.strftime("%Y-%m-%d %H:%M:%S%z"),
        )

    def newest(self) -> int:
        """Returns the generation of the newest snapshot, 0 for none."""
        return max(self.generations(), default=0)

    def generations(self) -> list[int]:
        """Returns the generations that the bucket has."""
        names = (Path(name).stem for name in self.bucket.names(SNAPSHOTS))
        return [int(name) for name in names if name.isdecimal()]

    def pull(self) -> bool:
        """Brings the working copy to the newest snapshot unless it has changes of an interrupted run; whether it did.

        Raises:
            UserError: the state was moved away, this working copy has changes and another operator saved newer ones,
                or the bucket is older than the working copy.
        """
        newest = self.newest()
        self.require_not_moved(newest)
        files = read_files(self.paths.root)
        self._settle_pending(newest)
        if newest < self.record.generation:
            raise UserError(
                f"{self.bucket.url} has snapshot {newest}, this working copy is of {self.record.generation}",
                fix=f"restore the bucket; if another operator destroyed the site, remove {self.paths.root}; if the "
                f"bucket is lost, remove {self.paths.root / RECORD}, change state.s3.prefix, and `strata state move`",
            )
        if newest == self.record.generation and not self.record.incomplete:
            if self.is_new and files:
                raise UserError(
                    f"state of site {self.paths.site} is in {self.paths.root}, the site file has {self.bucket.url}",
                    fix="`strata state move`",
                )
            return False
        changed = digest(files) != self.record.digest
        if changed and not self.record.incomplete and digest(files) != self._digest_of(newest):
            raise UserError(
                f"{self.paths.root} has changes that were not saved, and another operator saved snapshot {newest}",
                fix="`strata state discard` sets them aside; then check `strata plan` for what they were about",
            )
        self._apply(newest)
        return True

    def discard(self) -> Path | None:
        """Sets the working copy aside and downloads the newest snapshot; returns where the old files are."""
        newest = self.newest()
        self.require_not_moved(newest)
        if not newest:
            raise UserError(f"{self.bucket.url} has no snapshot", fix="`strata state move` saves this state there")
        files = read_files(self.paths.root)
        aside = None
        if files and digest(files) != self.record.digest:
            aside = self.paths.root.with_name(f"{self.paths.root.name}.unsaved-{time.strftime('%Y%m%d-%H%M%S')}")
            aside.mkdir(mode=0o700)
            write_files(aside, files)
        self._apply(newest)
        return aside

    def push(self, *, always: bool = False) -> bool:
        """Saves the working copy as a new snapshot if it changed; returns whether it did. The caller holds the lock.

        Raises:
            UserError: another operator saved a snapshot meanwhile, or the bucket does not take it.
        """
        files = read_files(self.paths.root)
        current = digest(files)
        if not files or (current == self.record.digest and not always):
            return False
        generation = max(self.newest(), self.record.generation) + 1
        if generation != self.record.generation + 1 and not self.is_new:
            raise self._overtaken(generation - 1)
        sealed = seal(pack(files), self.state)
        if not self.is_new:
            self._save(replace(self.record, pending=(generation, current)))
        about = {"digest": current, "operator": quote(getpass.getuser()), "host": quote(socket.gethostname())}
        try:
            self.bucket.put(name_of(generation), sealed, metadata=about)
        except Conflict as error:
            raise self._overtaken(generation) from error
        self._save(Record(self.record.url, self.record.copy, generation, current))
        if self._saved_by_this_run:
            self.bucket.delete(name_of(self._saved_by_this_run))
        self._saved_by_this_run = generation
        self.prune(KEPT)
        return True

    def prune(self, keep: int) -> int:
        """Deletes all but the newest snapshots; returns how many."""
        old = sorted(self.generations(), reverse=True)[keep:]
        for generation in old:
            self.bucket.delete(name_of(generation))
        return len(old)

    def fetch(self, generation: int) -> Files:
        """Downloads and decrypts a snapshot."""
        stored = self.bucket.get(name_of(generation))
        if stored is None:
            raise UserError(f"{self.bucket.url} lost snapshot {generation}", fix="repeat the command")
        return unpack(unseal(stored.body, self.bucket.url_of(name_of(generation))))

    def require_not_moved(self, newest: int) -> None:
        """Refuses a place that the state was moved away from.

        Raises:
            UserError: names who did, where and when.
        """
        stored = self.bucket.get(MOVED)
        if stored is not None and (marker := json.loads(stored.body))["generation"] == newest:
            raise UserError(
                f"state of site {self.paths.site} was moved from {self.bucket.url} to a local directory by "
                f"{marker['operator']} on {marker['host']} at {marker['since']}",
                fix="remove state from site.yaml and work on that host, or run `strata state move` there",
            )

    def forget(self) -> None:
        """Makes the directory local state again."""
        (self.paths.root / RECORD).unlink(missing_ok=True)

    def adopt(self, generation: int, files: Files) -> None:
        """Records that the files are those of a snapshot."""
        self._save(Record(self.record.url, self.record.copy, generation, digest(files)))

    def _identity(self) -> str:
        file = self.paths.root / IDENTITY
        return file.read_text() if file.exists() else f"{secrets.token_hex(8)}@{socket.gethostname()}"

    def _apply(self, generation: int) -> None:
        files = self.fetch(generation)
        self._save(replace(self.record, incomplete=True))
        write_files(self.paths.root, files)
        self.adopt(generation, files)

    def _settle_pending(self, newest: int) -> None:
        """Recognizes a snapshot that this copy uploaded just before it was interrupted."""
        generation, digest = self.record.pending
        if generation and generation == newest and self._digest_of(newest) == digest:
            self._save(Record(self.record.url, self.record.copy, generation, digest))

    def _digest_of(self, generation: int) -> str:
        return self.bucket.metadata(name_of(generation)).get("digest", "")

    def _overtaken(self, generation: int) -> UserError:
        return UserError(
            f"another operator saved snapshot {generation} while this run was at work; its own state was not saved",
            fix="`strata state discard` sets it aside; then check `strata plan` for what it was about",
        )

    def _save(self, record: Record) -> None:
        write_private(self.paths.root / RECORD, json.dumps(asdict(record)))
        self.record, self.is_new = record, False


def name_of(generation: int) -> str:
    """Returns the object name of a snapshot."""
    return f"{SNAPSHOTS}{generation:08d}.age"
