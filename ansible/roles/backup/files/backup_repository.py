"""The restic repository of this host, and the programs that a backup runs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

Done = subprocess.CompletedProcess[str]
NO_REPOSITORY = 10
"""Exit status of restic 0.17 and later; earlier ones only print a message."""
MISSING = ("specified key does not exist", "repository does not exist")
NO_RESPONSE = 124
"""Exit status in place of restic's, as of timeout(1)."""
LOCKED = "repository is already locked"
LOCK_SECONDS = 120.0
"""How long a command waits for the lock of another one, or for restic to see that a killed one has ended: while its
parent has not reaped it, it counts as running."""
OPEN_SECONDS, STATUS_SECONDS = 60.0, 4.0
"""How long the endpoint has to respond before a command, and for `problem`; restic itself tries for 15 min."""


class BackupError(Exception):
    """What went wrong, for the operator."""


class Repository:
    """The repository.

    Args:
        options: of restic, before its command.
        environment: of restic, with the repository's name and the secrets.
        directory: that restic runs in.
    """

    def __init__(self, options: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self._options, self._directory = options, directory
        self._environment = {**os.environ, **environment}

    def open(self) -> str:
        """Creates the repository where there is none.

        Returns:
            `created` or `opened`.

        Raises:
            BackupError: it does not open with this key and password, or the endpoint does not respond.
        """
        done = self._read(OPEN_SECONDS)
        if done.returncode == 0:
            return "opened"
        if done.returncode != NO_REPOSITORY and not any(text in done.stderr for text in MISSING):
            raise BackupError(f"the repository does not open: {last_message(done)}")
        self.restic("init")
        return "created"

    def require(self) -> None:
        """Opens the repository, and removes locks of runs that were killed on this host.

        Raises:
            BackupError: it does not open, or is gone: it must not be replaced by an empty one in silence.
        """
        checked(self._read(OPEN_SECONDS))
        self.restic("unlock")

    def problem(self) -> str | None:
        """Why the repository does not open now; None where it does."""
        done = self._read(STATUS_SECONDS)
        return f"does not open: {last_message(done)}" if done.returncode != 0 else None

    def damage(self) -> str | None:
        """What `restic check` finds: files that the repository needs and that are missing or incomplete.

        What the cache of this host has is not read again.
        """
        try:
            self.restic("check", "--with-cache", "--quiet")
        except BackupError as error:
            return str(error)
        return None

    def restic(self, *arguments: str, check: bool = True, directory: Path | None = None) -> Done:
        """Runs restic, which waits for the locks of others.

        Args:
            arguments: command and options.
            check: whether another status than 0 is an error.
            directory: where it runs.

        Raises:
            BackupError: restic failed.
        """
        end = time.monotonic() + LOCK_SECONDS
        while True:
            done = self._run(*arguments, directory=directory)
            if LOCKED not in done.stderr or time.monotonic() > end:
                return checked(done) if check else done
            time.sleep(1)
            self._run("unlock")  # removes no lock that is in use

    def _read(self, seconds: float) -> Done:
        """`restic cat config`; an endpoint that does not respond in time has a status of its own."""
        try:
            return self._run("cat", "config", "--no-lock", seconds=seconds)
        except subprocess.TimeoutExpired as error:
            said = error.stderr.decode(errors="replace").strip() if isinstance(error.stderr, bytes) else ""
            why = f"no response within {seconds:.0f} s" + (f": {said.splitlines()[0]}" if said else "")
            return subprocess.CompletedProcess(error.cmd, NO_RESPONSE, "", why)

    def _run(self, *arguments: str, directory: Path | None = None, seconds: float | None = None) -> Done:
        command = ("restic", *self._options, *arguments)
        return run_program(command, directory or self._directory, self._environment, seconds)


def run_program(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], seconds: float | None = None
) -> Done:
    """Runs a program without standard input.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`, and was killed.
    """
    return subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
    )


def checked(done: Done) -> Done:
    """The result of a program that succeeded.

    Raises:
        BackupError: it failed.
    """
    if done.returncode != 0:
        raise BackupError(f"{Path(done.args[0]).name}: {last_message(done)}")
    return done


def last_message(done: Done) -> str:
    """The message of a program that failed."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    # restic ends with the number of errors, the first line has what they are
    return "; ".join(dict.fromkeys((*lines[:1], *lines[-1:]))) or f"status {done.returncode}"
