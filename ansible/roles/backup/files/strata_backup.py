"""Backs up and restores exports and databases of this host: restic, to the S3 repository that the configuration names.

Run by /usr/local/sbin/strata-backup, which the role backup installs; needs nothing but Debian's Python. An item is
`export/NAME` or `database/NAME`; each has snapshots of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from backup_record import Record
from backup_repository import BackupError, Done, Repository, checked, last_message, run_program

CONFIGURATION = Path(os.environ.get("STRATA_BACKUP_CONFIGURATION", "/etc/strata-backup/configuration.json"))
LONGEST_NAME = 63
"""Characters of a name in PostgreSQL."""
INCOMPLETE = 3
"""Exit status of `restic backup` when files could not be read; the snapshot has all others."""
EMPTY = "snapshot is empty"
"""What restic prints for a directory without files."""
REPOSITORY = "repository"
"""What is checked after each backup, in the record beside the items."""
DUMP, ROLES = "database.dump", "roles.json"
"""Files of a database's snapshot: `pg_dump --format=custom`, and the names of the server's roles."""

COMMANDS = {
    "open": "create the repository where there is none",
    "run": "back up every item",
    "list": "print the snapshots, JSON",
    "problems": "print a line for each item without a recent backup, and why the repository does not open",
}
RESTORE_OPTIONS = {
    "snapshot": "id as listed, or latest",
    "what": "item, export/NAME or database/NAME",
    "target": "directory, or name of a database",
}


class Backup:
    """The host's items and their repository.

    Args:
        configuration: what the role writes.
    """

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self.items: dict[str, str] = configuration["items"]
        """Item to the directory of the export, or to the name of the database."""
        self._exclude = [f"--exclude={pattern}" for pattern in configuration["exclude"]]
        self._host: str = configuration["host"]
        self._keep: dict[str, int] = configuration["keep"]
        self._work = Path(configuration["directory"])
        age: int = configuration["maximum_age_seconds"]
        self.record = Record(self._work, (*self.items, REPOSITORY), age, Path(configuration["metrics"]))
        # the environment of this process names the server of tests
        self._environment = {"PGUSER": "postgres"} | os.environ
        self.repository = Repository(configuration["restic_options"], configuration["environment"], self._work)

    def problems(self) -> list[str]:
        """A line for each item whose last backup failed or is too old, and why the repository does not open now."""
        problem = self.repository.problem()
        return ([f"{REPOSITORY}: {problem}"] if problem else []) + self.record.problems()

    def run(self) -> None:
        """Backs up every item, whether or not others fail; checks the repository, and removes snapshots that are not to
        be kept from one without errors.

        Raises:
            BackupError: what failed; the rest is done.
        """
        with self._only_one():
            try:
                self.repository.require()
            except BackupError as error:
                for item in self.items:
                    self.record.note(item, str(error))
                raise
            failures = []
            # databases before exports: a file that a row of the dump names is there when the export is read
            for item in sorted(self.items):
                failure = self._failure_of(item)
                self.record.note(item, failure)
                failures += [f"{item}: {failure}"] if failure else []
            damage = self.repository.damage()
            self.record.note(REPOSITORY, damage)
            if damage:
                raise BackupError("\n".join((*failures, f"{REPOSITORY}: {damage}")))
            kept = [argument for unit, number in self._keep.items() for argument in (f"--keep-{unit}", str(number))]
            self.repository.restic("forget", "--prune", "--host", self._host, "--group-by", "host,tags", *kept)
        if failures:
            raise BackupError("\n".join(failures))

    def snapshots(self) -> list[dict[str, str]]:
        """The snapshots in the order of time."""
        done = self.repository.restic("snapshots", "--host", self._host, "--json")
        rows = (
            (snapshot["short_id"], snapshot["time"], tag)
            for snapshot in json.loads(done.stdout)
            for tag in snapshot["tags"] or ()
        )
        return [{"id": identifier, "time": when, "item": item, "host": self._host} for identifier, when, item in rows]

    def restore(self, snapshot: str, item: str, target: str, *, overwrite: bool, dry_run: bool) -> str:
        """Restores an export into a directory, or a database under a name.

        Args:
            snapshot: id, or `latest`.
            item: whose snapshot it is.
            target: absolute path, or name of the database.
            overwrite: whether the target may exist; what was there stays under another name.
            dry_run: checks everything and changes nothing.

        Returns:
            What was done, in words.

        Raises:
            BackupError: no such snapshot, the target exists, or something failed; what was there is there.
        """
        known = [entry["id"] for entry in self.snapshots() if entry["item"] == item]
        chosen = (
            known[-1:]
            if snapshot == "latest"
            else [identifier for identifier in known if snapshot.startswith(identifier)]
        )
        if not chosen:
            raise BackupError(f"{item} has no snapshot {snapshot}; it has {', '.join(known) or 'none'}")
        database = item.startswith("database/")
        if not database:
            _check_directory(target, overwrite)
        elif target in self._databases() and not overwrite:
            raise BackupError(f"there is a database {target} already; another target, or --overwrite")
        statistics = json.loads(self.repository.restic("stats", chosen[0], "--mode", "restore-size", "--json").stdout)
        what = f"snapshot {chosen[0]} of {item} ({statistics['total_size']} bytes) to {target}"
        if dry_run:
            return f"would restore {what}"
        former: str | Path | None
        if database:
            former = self._restore_database(chosen[0], item.partition("/")[2], target)
        else:
            former = self._restore_directory(chosen[0], item, Path(target))
        return f"restored {what}" + (f"; what was there is {former}" if former else "")

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        with (self._work / "run.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BackupError("a backup is running already") from None
            yield

    def _failure_of(self, item: str) -> str | None:
        """Why an item could not be backed up, None where it was."""
        kind, _, name = item.partition("/")
        try:
            if kind == "database":
                self._back_up_database(item, name)
            else:
                self._back_up_directory(item, Path(self.items[item]))
        except (BackupError, OSError) as error:
            return str(error)
        return None

    def _back_up_directory(self, item: str, directory: Path) -> None:
        """One snapshot, its root the directory; files that are removed meanwhile are not missed."""
        if not directory.is_dir():
            raise BackupError(f"there is no directory {directory}")
        arguments = ("backup", ".", *self._exclude, "--host", self._host, "--tag", item, "--json", "--quiet")
        done = self.repository.restic(*arguments, check=False, directory=directory)
        if done.returncode == INCOMPLETE:
            unread = [line for line in done.stderr.splitlines() if line.strip() and not _vanished(line)]
            if unread:
                raise BackupError(f"files could not be read: {unread[0]}")
        elif EMPTY in done.stderr:
            # of a new site; later, a file system may not be mounted
            if any(snapshot["item"] == item for snapshot in self.snapshots()):
                raise BackupError(f"{directory} is empty, and its last snapshot is not")
        elif done.returncode != 0:
            raise BackupError(last_message(done))

    def _back_up_database(self, item: str, name: str) -> None:
        # not compressed: restic compresses, and finds again what has not changed
        with self._temporary(name) as directory:
            self._run("pg_dump", "--format=custom", "--compress=0", f"--file={directory / DUMP}", f"--dbname={name}")
            roles = self._sql("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_'").splitlines()
            (directory / ROLES).write_text(json.dumps(sorted(roles)))
            self._back_up_directory(item, directory)

    def _restore_directory(self, snapshot: str, item: str, target: Path) -> Path | None:
        """Restores inside of the directory, then exchanges the entries; returns where those before are.

        The directory itself stays: it may be exported or a mount point.
        """
        original = Path(self.items.get(item, "/nowhere"))
        if not target.is_dir():
            target.mkdir(parents=True, mode=0o700)
            if original.is_dir():
                status = original.stat()
                os.chown(target, status.st_uid, status.st_gid)
                target.chmod(status.st_mode & 0o7777)
        before = list(target.iterdir())
        new = target / f".restore-{_moment()}" if before else target
        new.mkdir(mode=0o700, exist_ok=not before)
        try:
            # --verify reads what was written and compares it
            self.repository.restic("restore", snapshot, "--target", str(new), "--verify")
        except BackupError:
            if before:
                shutil.rmtree(new)
            raise
        if not before:
            return None
        former = target / f".before-{_moment()}"
        former.mkdir(mode=0o700)
        for entry in before:
            entry.rename(former / entry.name)
        for entry in list(new.iterdir()):
            entry.rename(target / entry.name)
        new.rmdir()
        return former

    def _restore_database(self, snapshot: str, owner: str, target: str) -> str | None:
        """Restores beside what there is, then exchanges the names; returns the new name of the database before."""
        moment = _moment()
        new, former = f"{target}_new_{moment}", f"{target}_before_{moment}"
        if len(former) > LONGEST_NAME:
            raise BackupError(f"{target} is too long a name: {former} has more than {LONGEST_NAME} characters")
        with self._temporary(f"restore-{target}") as directory:
            self.repository.restic("restore", snapshot, "--target", str(directory), "--verify")
            there = self._sql("SELECT rolname FROM pg_roles").splitlines()
            for role in json.loads((directory / ROLES).read_text()):
                if role not in there:
                    self._sql(f"CREATE ROLE {_quoted(role)} NOLOGIN")
            self._sql(
                f"CREATE DATABASE {_quoted(new)} OWNER {_quoted(owner)} TEMPLATE template0 ENCODING 'UTF8' "
                "LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'"
            )
            try:
                self._run("pg_restore", "--exit-on-error", f"--dbname={new}", str(directory / DUMP))
            except BackupError:
                self._sql(f"DROP DATABASE {_quoted(new)}")
                raise
        rename = f"ALTER DATABASE {_quoted(new)} RENAME TO {_quoted(target)}"
        if target not in self._databases():
            self._sql(rename)
            return None
        # clients would connect again between the end of their sessions and the renaming
        self._sql(f"ALTER DATABASE {_quoted(target)} ALLOW_CONNECTIONS false")
        try:
            sessions = f"FROM pg_stat_activity WHERE datname = {_literal(target)}"
            self._sql(f"SELECT pg_terminate_backend(pid) {sessions}")
            # one transaction
            self._sql(f"ALTER DATABASE {_quoted(target)} RENAME TO {_quoted(former)}; {rename}")
        except BackupError:
            self._sql(f"ALTER DATABASE {_quoted(target)} ALLOW_CONNECTIONS true")
            raise
        self._sql(f"ALTER DATABASE {_quoted(former)} ALLOW_CONNECTIONS true")
        return former

    def _databases(self) -> list[str]:
        return self._sql("SELECT datname FROM pg_database").splitlines()

    def _sql(self, statement: str) -> str:
        options = ("--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--dbname=postgres")
        return self._run("psql", *options, f"--command={statement}").stdout.strip()

    @contextlib.contextmanager
    def _temporary(self, name: str) -> Iterator[Path]:
        """A directory, always the same for a name, so that restic compares with the snapshot before."""
        directory = self._work / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run(self, *command: str) -> Done:
        return checked(run_program(command, self._work, self._environment))


def _check_directory(target: str, overwrite: bool) -> None:
    path = Path(target)
    if not path.is_absolute():
        raise BackupError(f"{target} is not an absolute path")
    if path.exists() and not path.is_dir():
        raise BackupError(f"{target} is not a directory")
    if not overwrite and path.is_dir() and any(path.iterdir()):
        raise BackupError(f"{target} is not empty; another target, or --overwrite")


def _vanished(line: str) -> bool:
    """Whether a line of restic's errors is about a file that was removed during the backup."""
    return "no such file" in line or '"Err":2,' in line.replace(" ", "").replace("}", ",")


def _moment() -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command."""
    parser = argparse.ArgumentParser(prog="strata-backup", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose)
    restore = commands.add_parser("restore", help="restore one item")
    for name, purpose in RESTORE_OPTIONS.items():
        restore.add_argument(f"--{name}", required=True, help=purpose)
    restore.add_argument("--overwrite", action="store_true", help="the target may exist")
    restore.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    try:
        backup = Backup(json.loads(CONFIGURATION.read_text()))
        if options.command == "run":
            try:
                backup.run()
            finally:
                backup.record.write_metrics()
        elif options.command == "restore":
            choice = {"overwrite": options.overwrite, "dry_run": options.dry_run}
            print(backup.restore(options.snapshot, options.what, options.target, **choice))
        elif options.command == "open":
            print(backup.repository.open())
            backup.record.write_metrics()
        else:
            print(json.dumps(backup.snapshots()) if options.command == "list" else "\n".join(backup.problems()))
    except (BackupError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
