"""Recovery of a PostgreSQL server's directory to a moment: by the server itself, closed to clients until it is done."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgbackrest_repository import STANZA, PgBackRestError

LONGEST_SECONDS = 48 * 3600
"""Of the replay of WAL since a full backup, over a slow line."""
CARRIED = {
    "max_connections setting": "max_connections",
    "max_worker_processes setting": "max_worker_processes",
    "max_wal_senders setting": "max_wal_senders",
    "max_prepared_xacts setting": "max_prepared_transactions",
    "max_locks_per_xact setting": "max_locks_per_transaction",
}
"""Lines of pg_controldata, and the settings that must not be lower than on the server of the backup."""
RECOVERY_SETTINGS = ("restore_command", "recovery_target_time", "recovery_target_action", "recovery_target_timeline")
"""What `pgbackrest restore` writes to postgresql.auto.conf; a later standby would obey it."""
MISSED = "recovery ended before configured recovery target was reached"
LOG_LINES = 3
POLL_SECONDS = 1.0


def as_postgres(*command: str, text: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a command as the owner of the server.

    Args:
        command: with its arguments.
        text: for its standard input.
        check: whether a failure is an error.

    Raises:
        PgBackRestError: it failed.
    """
    done = subprocess.run(
        ("runuser", "-u", "postgres", "--", *command),
        cwd="/",
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PgBackRestError(f"{Path(command[0]).name}: {said[-1] if said else f'status {done.returncode}'}")
    return done


def recover(data: Path, binaries: Path, statements: str) -> None:
    """Replays WAL by the directory's recovery settings, promotes the server, removes the settings and stops it.

    Args:
        data: directory that pgBackRest restored.
        binaries: of PostgreSQL.
        statements: SQL to run before any client; may hold passwords.

    Raises:
        PgBackRestError: the moment is not in the WAL, or the server does not start; it is stopped.
    """
    with _directory() as work:
        _configure(work, data, binaries)
        log = work / "log"
        start = (str(binaries / "pg_ctl"), "start", "-D", str(data), "-l", str(log), "-w", "-t", str(LONGEST_SECONDS))
        try:
            as_postgres(*start, "-o", f"-c config_file={work}/postgresql.conf")
            _wait(work, data, binaries)
            for setting in RECOVERY_SETTINGS:
                as_postgres("psql", "-h", str(work), "-XAtqc", f"ALTER SYSTEM RESET {setting}")
            as_postgres("psql", "-h", str(work), "-XAtq", "-v", "ON_ERROR_STOP=1", text=statements)
        except PgBackRestError as error:
            raise PgBackRestError(_reason(log) or str(error)) from None
        finally:
            as_postgres(str(binaries / "pg_ctl"), "stop", "-D", str(data), "-m", "fast", "-w", check=False)


def _wait(work: Path, data: Path, binaries: Path) -> None:
    """Waits for the end of the recovery; without hot standby, the server accepts no connection before.

    Raises:
        PgBackRestError: the server has ended.
    """
    while as_postgres("psql", "-h", str(work), "-XAtqc", "select 1", check=False).returncode != 0:
        as_postgres(str(binaries / "pg_ctl"), "status", "-D", str(data))
        time.sleep(POLL_SECONDS)


def _configure(work: Path, data: Path, binaries: Path) -> None:
    """Writes the settings of a server that only its own user reaches."""
    control = as_postgres(str(binaries / "pg_controldata"), str(data)).stdout
    lines = (line.partition(":") for line in control.splitlines())
    values = {name.strip(): value.strip() for name, _, value in lines}
    settings = {setting: values[line] for line, setting in CARRIED.items()}
    settings |= {
        "listen_addresses": "",
        "unix_socket_directories": str(work),
        "hba_file": f"{work}/pg_hba.conf",
        "ident_file": f"{work}/pg_ident.conf",
        "hot_standby": "off",
        # the new timeline belongs to the archive from its first record on
        "archive_mode": "on",
        "archive_command": f"/usr/bin/pgbackrest --stanza={STANZA} archive-push %p",
    }
    _write(work / "postgresql.conf", [f"{name} = '{value}'" for name, value in settings.items()])
    _write(work / "pg_hba.conf", ["local all postgres peer"])
    _write(work / "pg_ident.conf", [])


def _write(file: Path, lines: Sequence[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines))
    file.chmod(0o644)


def _reason(log: Path) -> str:
    """Why the server ended, from its log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    if any(MISSED in line for line in lines):
        return "the archive ends before that moment"
    fatal = [line for line in lines if "FATAL" in line or "PANIC" in line]
    return "; ".join(line.partition("] ")[2] or line for line in fatal[:LOG_LINES])


@contextmanager
def _directory() -> Iterator[Path]:
    """A directory of the server's user."""
    work = Path(tempfile.mkdtemp(prefix="strata-recovery-"))
    try:
        shutil.chown(work, "postgres", "postgres")
        yield work
    finally:
        shutil.rmtree(work)
