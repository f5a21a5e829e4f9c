"""A run on shared state: locked, downloaded, saved while it works and at its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from strata.errors import UserError
from strata.models.state import SharedState
from strata.progress import Progress, Silent
from strata.shared_state import lease
from strata.shared_state.lease import RENEWAL_SECONDS, Holder
from strata.shared_state.working_copy import WorkingCopy
from strata.site.paths import SitePaths

SAVE_EVERY = 4
"""Renewals of the lock between two snapshots of a run: a minute."""
INTERRUPTION = signal.SIGUSR1
"""What ends a run without its lock: one that a script started in the background ignores SIGINT."""


@contextmanager
def lock(copy: WorkingCopy, command: str, progress: Progress) -> Iterator[Holder]:
    """Holds the site's lock in the bucket for a command on the state itself, and renews it.

    Raises:
        UserError: another run holds it, see `lease.acquire`, or took it.
    """
    me = copy.holder(command)
    lease.acquire(copy.bucket, me, copy.state.wait_minutes * 60, progress)
    keeper = _Keeper(copy, me, saves=False)
    keeper.start()
    try:
        yield me
    except KeyboardInterrupt:
        if keeper.lost:
            raise keeper.taken() from None
        raise
    finally:
        keeper.stop()
        lease.release(copy.bucket, me)


@contextmanager
def session(paths: SitePaths, state: SharedState, command: str, progress: Progress) -> Iterator[None]:
    """Locks a shared site, downloads its state, and saves it every minute and at the end, however the run ends.

    Raises:
        UserError: the lock is not available or was lost, or the state cannot be downloaded or saved; then the lock
            stays, to show other operators where unsaved state is.
    """
    copy = WorkingCopy(paths, state)
    me = copy.holder(command)
    lease.acquire(copy.bucket, me, state.wait_minutes * 60, progress)
    try:
        copy.pull()
        if copy.is_new:
            copy.adopt(0, {})  # a run that is killed before its first snapshot resumes
    except BaseException:
        lease.release(copy.bucket, me)
        raise
    keeper = _Keeper(copy, me, saves=True)
    keeper.start()
    try:
        yield
    except BaseException:
        keeper.stop()
        try:
            keeper.finish()
        except UserError as error:
            if keeper.lost:
                raise error from None
            print(f"error: {error}", file=sys.stderr)  # the run's own error follows
        raise
    keeper.stop()
    keeper.finish()


def erase(paths: SitePaths, state: SharedState) -> None:
    """Deletes the snapshots of a destroyed site.

    Raises:
        UserError: another operator saved one since then.
    """
    copy = WorkingCopy(paths, state)
    with lock(copy, "destroy", Silent()):
        if (newest := copy.newest()) > copy.record.generation:
            raise UserError(
                f"another operator saved snapshot {newest} after the site was removed; no snapshot was deleted",
                fix="`strata plan` shows what that run deployed; to remove it too, repeat `strata destroy`",
            )
        copy.prune(0)
    copy.forget()


class _Keeper(threading.Thread):
    """Renews the lock; interrupts the run when it is lost.

    Args:
        copy: of the run.
        me: the run.
        saves: whether to save a snapshot every minute too.
    """

    def __init__(self, copy: WorkingCopy, me: Holder, *, saves: bool) -> None:
        super().__init__(name="shared-state", daemon=True)
        self.lost = False
        self._saves = saves
        self._copy, self._me = copy, me
        self._bucket = copy.bucket
        self._done = threading.Event()

    def run(self) -> None:
        count = 0
        while not self._done.wait(RENEWAL_SECONDS):
            count += 1
            try:
                self.lost = not lease.renew(self._bucket, self._me, count)
                if self.lost:
                    if not self._done.is_set():
                        os.kill(os.getpid(), INTERRUPTION)
                    return
                if self._saves and count % SAVE_EVERY == 0:
                    self._copy.push()
            except UserError:
                continue  # the next renewal may succeed; the end of the run reports what does not

    def start(self) -> None:
        """Begins; from the main thread, which a lost lock interrupts."""
        self._handler = signal.signal(INTERRUPTION, signal.default_int_handler)
        super().start()

    def stop(self) -> None:
        """Ends the renewals and waits for a snapshot under way."""
        self._done.set()
        self.join()
        signal.signal(INTERRUPTION, self._handler)

    def finish(self) -> None:
        """Saves the state and gives the lock back.

        Raises:
            UserError: the lock was lost, or the state cannot be saved.
        """
        seen = lease.look(self._bucket)
        if self.lost or seen is None or seen.holder.token != self._me.token:
            self.lost = True
            raise self.taken()
        self._copy.push()
        lease.release(self._bucket, self._me)

    def taken(self) -> UserError:
        """Returns the error of a run that lost its lock."""
        seen = lease.look(self._bucket)
        now = f"; it is held by {seen.holder}" if seen else ""
        return UserError(
            f"the lock of this run was removed by another operator{now}; its state was not saved",
            fix="agree with the other operator, then repeat the command; if they saved state, "
            "`strata state discard` comes first",
        )
