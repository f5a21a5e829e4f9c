"""The lock of a shared site: an object that names its holder and that the holder renews."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field

from strata.errors import UserError
from strata.progress import Progress
from strata.shared_state.bucket import Bucket, Conflict

LOCK = "lock.json"
RENEWAL_SECONDS = 15.0
EXPIRY_SECONDS = 90.0
POLL_SECONDS = 2.0
SETTLE_SECONDS = 1.0
"""After which the lock is read back: some servers check a condition and write in two steps."""


@dataclass(frozen=True)
class Holder:
    """A run that holds the lock.

    Args:
        token: of this run, random.
        copy: id of its working copy.
        operator: login name.
        host: its deployment host.
        command: of strata.
        since: start, local time with offset.
        renewal: counter, so that each renewal is another object.
    """

    token: str = field(repr=False)
    copy: str
    operator: str
    host: str
    command: str
    since: str
    renewal: int = 0

    def __str__(self) -> str:
        return f"{self.operator} on {self.host} (`strata {self.command}`, since {self.since})"


@dataclass(frozen=True)
class Seen:
    """The lock as it is stored.

    Args:
        holder: name of the operator who took it.
        etag: of the object.
        age: seconds since its last renewal.
    """

    holder: Holder
    etag: str
    age: float

    @property
    def expired(self) -> bool:
        """Whether the holder stopped renewing it: killed, suspended or cut off."""
        return self.age > EXPIRY_SECONDS


def look(bucket: Bucket) -> Seen | None:
    """Returns the lock, None if it is free."""
    stored = bucket.get(LOCK)
    if stored is None:
        return None
    try:
        return Seen(Holder(**json.loads(stored.body)), stored.etag, stored.age)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"shared state: {bucket.url_of(LOCK)} is not a lock of Strata",
            fix="delete the object if no run is under way",
        ) from error


def acquire(bucket: Bucket, me: Holder, wait_seconds: float, progress: Progress) -> None:
    """Takes the lock; waits while another run holds it.

    A lock of this working copy is from an interrupted run (`site_lock` admits one run per copy): it is taken over.

    Raises:
        UserError: the other run did not end in time, or its lock expired: its host may have state that was not saved.
    """
    body = json.dumps(asdict(me)).encode()
    deadline = time.monotonic() + wait_seconds
    while True:
        seen = look(bucket)
        if seen is None or seen.holder.copy == me.copy:
            try:
                bucket.put(LOCK, body, replacing=seen.etag if seen else None)
            except Conflict:
                continue
            time.sleep(SETTLE_SECONDS)
            seen = look(bucket)
            if seen is not None and seen.holder.token == me.token:
                return
            continue
        if seen.expired:
            raise UserError(
                f"{seen.holder} was interrupted {seen.age:.0f} s ago and may have unsaved state there",
                fix="repeat its command on that host; if that is impossible, `strata state unlock` and check "
                "`strata plan` for what it left",
            )
        if time.monotonic() >= deadline:
            raise UserError(f"{seen.holder} is at work on this site", fix="repeat the command when that has ended")
        progress.update(f"waiting for {seen.holder}")
        time.sleep(POLL_SECONDS)


def renew(bucket: Bucket, me: Holder, count: int) -> bool:
    """Renews the lock; returns whether this run still holds it."""
    seen = look(bucket)
    if seen is None or seen.holder.token != me.token:
        return False
    try:
        bucket.put(LOCK, json.dumps(asdict(me) | {"renewal": count}).encode(), replacing=seen.etag)
    except Conflict:
        return False
    return True


def release(bucket: Bucket, me: Holder) -> None:
    """Gives the lock back if this run still holds it."""
    seen = look(bucket)
    if seen is not None and seen.holder.token == me.token:
        bucket.delete(LOCK)


def unlock(bucket: Bucket, *, force: bool) -> Holder | None:
    """Removes another run's lock; returns whose it was.

    Raises:
        UserError: its holder is alive, and `force` is not set.
    """
    seen = look(bucket)
    if seen is None:
        return None
    if not seen.expired and not force:
        raise UserError(
            f"{seen.holder} renewed its lock {seen.age:.0f} s ago: it is at work",
            fix=f"wait {EXPIRY_SECONDS:.0f} s if it was killed; --force ends its hold",
        )
    bucket.delete(LOCK)
    return seen.holder
