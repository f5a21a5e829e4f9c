"""Backs up this host's PostgreSQL server with pgBackRest, and restores it to a point in time.

Run by /usr/local/sbin/strata-pgbackrest, which the role pgbackrest installs; needs nothing but Debian's Python. With
Patroni, backups are those of the primary; other hosts do nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pgbackrest_repository import NO_STANZA, PgBackRestError, backups, choose, information, pgbackrest
from postgresql_recovery import as_postgres, recover

CONFIGURATION = Path("/etc/pgbackrest/strata.json")
UNIT = "strata-pgbackrest.service"
PATRONI = Path("/etc/patroni/config.yml")
PATRONICTL = ("patronictl", "--config-file", str(PATRONI))
USERS = {"superuser": "superuser", "replication": "replication", "rewind": "noreplication"}
"""Patroni's, and the attribute of each."""
SCOPE = "postgresql"
ITEM = "postgresql"
REWIND_FUNCTIONS = (
    "pg_ls_dir(text, boolean, boolean)",
    "pg_stat_file(text, boolean)",
    "pg_read_binary_file(text)",
    "pg_read_binary_file(text, bigint, bigint, boolean)",
)
START_SECONDS = 120.0
COPY_SECONDS = 48 * 3600.0
"""A standby copies the primary over a slow line."""
DIFFERENTIAL_SECONDS = 86400.0
PRIMARY, STANDBY, DOWN = "primary", "standby", "down"

COMMANDS = {
    "open": "create the repository where there is none",
    "run": "back up the server, if it is the primary",
    "list": "print the backups, JSON",
    "problems": "print a line for each problem of backups and archive",
    "role": "print primary, standby or down",
    "join": "replace this standby by a copy of the primary",
}


class Archive:
    """The server of this host and its repository.

    Args:
        configuration: what the role writes.
    """

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._host: str = configuration["host"]
        self._data = Path(configuration["data"])
        self._binaries = Path(configuration["binaries"])
        self._sql_options = ("-h", configuration["socket"], "-p", str(configuration["port"]))
        self._unit: str = configuration["unit"]
        self._patroni: bool = configuration["patroni"]
        self._seconds = {name: float(value) for name, value in configuration.items() if name.endswith("_seconds")}
        self._metrics = Path(configuration["metrics"])

    def open(self) -> str:
        """Creates the repository where there is none, and archives a segment of WAL.

        Returns:
            `created`, `opened`, or `standby`, which leaves it to the primary.

        Raises:
            PgBackRestError: it does not open with this key and password, or is another server's.
        """
        if self.role() != PRIMARY:
            return STANDBY
        created = information()["status"]["code"] == NO_STANZA
        if created:
            pgbackrest("stanza-create")
        pgbackrest("check")
        self._write_metrics()
        return "created" if created else "opened"

    def run(self) -> str:
        """Backs up the primary: full, differential or incremental, by the age of the earlier ones."""
        if self.role() != PRIMARY:
            self._write_metrics()
            return "not the primary"
        kind = self._due()
        pgbackrest(f"--type={kind}", "backup")
        self._write_metrics()
        return f"{kind} backup is complete"

    def snapshots(self) -> str:
        """Backups in the order of time, JSON."""
        stored = backups(information()) if self.role() == PRIMARY else []
        return json.dumps(
            [{"id": backup.label, "time": _iso(backup.stop), "item": ITEM, "host": self._host} for backup in stored]
        )

    def problems(self) -> str:
        """A line for each problem; a standby has none."""
        return "\n".join(f"{ITEM}: {line}" for line in self._problems()) if self.role() == PRIMARY else ""

    def role(self) -> str:
        """Primary, standby or down."""
        try:
            return STANDBY if self._sql("select pg_is_in_recovery()") == "t" else PRIMARY
        except PgBackRestError:
            return DOWN

    def restore(self, label: str, moment: float | None, *, overwrite: bool, dry_run: bool) -> str:
        """Replaces the server's files by those of a moment; with Patroni, makes this host the first of a new cluster.

        Args:
            label: of a backup, or `latest` for the last one before the moment.
            moment: Unix time; None for the end of the archive.
            overwrite: whether the databases that are there may be replaced; their files stay under another name.
            dry_run: checks everything and changes nothing.

        Returns:
            What was done, in words.

        Raises:
            PgBackRestError: it is not possible, or failed; what was there is there.
        """
        backup = choose(information(), label, moment)
        free = shutil.disk_usage(self._data.parent).free
        if free < backup.size:
            raise PgBackRestError(f"{self._data.parent} has {free} bytes free; the backup needs {backup.size}")
        until = "the end of the archive" if moment is None else _iso(moment)
        what = f"backup {backup.label} ({backup.size} bytes) and WAL to {until}"
        if dry_run:
            return f"would restore {what}"
        if not overwrite:
            raise PgBackRestError("a restore replaces all databases of the server; --overwrite")
        self._stop()
        former = self._data.with_name(f"{self._data.name}.before-{_moment()}")
        if self._data.exists():
            self._data.rename(former)
        try:
            self._fill(backup.label, moment)
            if self._patroni:
                self._prepare_for_patroni(former)
        except BaseException:
            shutil.rmtree(self._data, ignore_errors=True)
            if former.exists():
                former.rename(self._data)
            self._start()
            raise
        self._start()
        self._wait(lambda: self.role() == PRIMARY, START_SECONDS, "the server is not the primary")
        return f"restored {what}" + (f"; what was there is {former}" if former.exists() else "")

    def join(self) -> str:
        """Replaces this host's files by a copy of the primary's.

        Raises:
            PgBackRestError: another host is not the primary, or this one does not follow it.
        """
        if not any(name != self._host and leads for name, leads in self._members().items()):
            raise PgBackRestError("no other host is the primary")
        self._systemctl("stop")
        shutil.rmtree(self._data, ignore_errors=True)
        self._systemctl("start")
        query = "select count(*) from pg_stat_wal_receiver where status = 'streaming'"
        self._wait(lambda: self._sql(query) == "1", COPY_SECONDS, "the standby does not follow the primary")
        return "joined"

    def _due(self) -> str:
        """Kind of the next backup; half an interval early counts as due, because timers and backups take their time."""
        stored, soon = backups(information()), time.time() + self._seconds["interval_seconds"] / 2
        last = {kinds: max((backup.start for backup in stored if backup.kind in kinds), default=0.0) for kinds in KINDS}
        if soon - last[FULL] > self._seconds["full_interval_seconds"]:
            return "full"
        return "diff" if soon - last[FULL_OR_DIFFERENTIAL] > DIFFERENTIAL_SECONDS else "incr"

    def _problems(self) -> list[str]:
        lines = []
        try:
            age = time.time() - self._last_backup()
            if age > self._seconds["maximum_age_seconds"]:
                lines.append(f"no backup for {age / 3600:.0f} h")
        except PgBackRestError as error:
            lines.append(str(error))
        if subprocess.run(("systemctl", "is-failed", "--quiet", UNIT), check=False).returncode == 0:
            lines.append(f"the last backup failed; `journalctl -u {UNIT}`")
        if self._sql("show archive_mode") != "on":
            lines.append("WAL is not archived until the server is restarted")
        # a segment that waits has a file of this kind, made when it was complete
        waiting = self._sql(
            "select coalesce(extract(epoch from now() - min(modification)), 0)::bigint from pg_ls_archive_statusdir() "
            "where name like '%.ready'"
        )
        if float(waiting) > self._seconds["maximum_archive_age_seconds"]:
            lines.append(f"WAL is not archived for {int(waiting) // 60} min; PostgreSQL's log has the reason")
        return lines

    def _last_backup(self) -> float:
        """Unix time of the last backup; before the first one, of the configuration."""
        return max((backup.stop for backup in backups(information())), default=CONFIGURATION.stat().st_mtime)

    def _write_metrics(self) -> None:
        """Writes when the next backup is overdue; a standby has no such time."""
        if self.role() != PRIMARY:
            self._metrics.unlink(missing_ok=True)
            return
        last = self._last_backup()
        values = {"last_success": last, "due": last + self._seconds["maximum_age_seconds"]}
        temporary = self._metrics.with_suffix(".new")  # which the exporter does not read
        with temporary.open("w") as file:
            for name, value in values.items():
                metric = f"strata_postgresql_backup_{name}_timestamp_seconds"
                file.write(f'# TYPE {metric} gauge\n{metric}{{item="{ITEM}"}} {value:.0f}\n')
            os.fchmod(file.fileno(), 0o644)
        temporary.replace(self._metrics)

    def _stop(self) -> None:
        """Stops the server; with Patroni, only the last one."""
        if self._patroni and (others := sorted(set(self._members()) - {self._host})):
            raise PgBackRestError(f"Patroni runs on {', '.join(others)}; `systemctl stop patroni` there first")
        self._systemctl("stop")

    def _start(self) -> None:
        self._systemctl("start")

    def _fill(self, label: str, moment: float | None) -> None:
        """Restores and recovers the directory."""
        self._data.mkdir(mode=0o700)
        shutil.chown(self._data, "postgres", "postgres")
        target = ["--type=default"]
        if moment is not None:
            target = ["--type=time", f"--target={_iso(moment, ' ')}", "--target-action=promote"]
        pgbackrest(f"--set={label}", *target, "restore")
        recover(self._data, self._binaries, _set_users(PATRONI.read_text()) if self._patroni else "")

    def _prepare_for_patroni(self, former: Path) -> None:
        """Has Patroni take the restored files for those of a new cluster, with the settings of the one before."""
        settings = former / "patroni.dynamic.json"
        if settings.exists():
            shutil.copy2(settings, self._data)
            shutil.chown(self._data / settings.name, "postgres", "postgres")
        configuration = self._data / "postgresql.conf"  # a server without Patroni has it elsewhere
        if not configuration.exists():
            configuration.touch(mode=0o600)
            shutil.chown(configuration, "postgres", "postgres")
        # the position of the primary that was lost would keep a server at an earlier one from becoming primary
        answers = f"{SCOPE}\nYes I am aware\n"
        done = subprocess.run(
            (*PATRONICTL, "remove", SCOPE), input=answers, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PgBackRestError(f"patronictl remove: {(done.stderr or done.stdout).strip()[-200:]}")

    def _members(self) -> dict[str, bool]:
        """Members of the cluster that run, and whether each is the primary."""
        done = subprocess.run((*PATRONICTL, "list", "--format", "json"), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PgBackRestError(f"patronictl list: {done.stderr.strip()[-200:]}")
        listed = json.loads(done.stdout or "[]")
        running = [member for member in listed if member["State"] in ("running", "streaming")]
        return {member["Member"]: member["Role"] == "Leader" for member in running}

    def _sql(self, query: str) -> str:
        return as_postgres("psql", *self._sql_options, "-d", "postgres", "-XAtqc", query).stdout.strip()

    def _systemctl(self, verb: str) -> None:
        done = subprocess.run(("systemctl", verb, self._unit), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PgBackRestError(f"systemctl {verb} {self._unit}: {done.stderr.strip()}")

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(PgBackRestError):
                if condition():
                    return
            if time.monotonic() > end:
                raise PgBackRestError(f"{what} after {seconds:.0f} s; `journalctl -u {self._unit}`")
            time.sleep(1)


FULL, FULL_OR_DIFFERENTIAL = ("full",), ("full", "diff")
KINDS = (FULL, FULL_OR_DIFFERENTIAL)


def _set_users(configuration: str) -> str:
    """SQL that gives Patroni's users their present passwords: those of the backup may be others.

    Args:
        configuration: of Patroni.
    """
    import yaml  # noqa: PLC0415  # Patroni's, on hosts that have it

    users = yaml.safe_load(configuration)["postgresql"]["authentication"]
    # the server's log would show a statement that fails
    settings = {"log_statement": "none", "log_min_error_statement": "panic", "password_encryption": "scram-sha-256"}
    lines = [f"set {name} = '{value}';" for name, value in settings.items()]
    for key, attribute in USERS.items():
        name, password = users[key]["username"], users[key]["password"].replace("'", "''")
        lines += [
            f"select 'create role {name}' where to_regrole('{name}') is null \\gexec",
            f"alter role {name} login {attribute} password '{password}';",
        ]
    functions = ", ".join(f"pg_catalog.{function}" for function in REWIND_FUNCTIONS)
    lines.append(f"grant execute on function {functions} to {users['rewind']['username']};")
    return "\n".join(lines)


def _iso(seconds: float, separator: str = "T") -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(separator, "microseconds" if seconds % 1 else "seconds")


def _moment() -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime())


def _time(text: str) -> float:
    """Unix time, from ISO 8601 with an offset."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("no offset from UTC")
    return parsed.timestamp()


def _run(archive: Archive, command: str) -> str:
    """What a command without arguments prints."""
    functions = {
        **{"open": archive.open, "run": archive.run, "list": archive.snapshots},
        **{"problems": archive.problems, "role": archive.role, "join": archive.join},
    }
    return functions[command]()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command."""
    parser = argparse.ArgumentParser(prog="strata-pgbackrest", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose)
    restore = commands.add_parser("restore", help="restore the server to a moment")
    restore.add_argument("--target-time", type=_time, help="ISO 8601 with offset; default: the end of the archive")
    restore.add_argument("--snapshot", default="latest", help="backup as listed; default: the last before that moment")
    restore.add_argument("--overwrite", action="store_true", help="replace the databases that are there")
    restore.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    try:
        archive = Archive(json.loads(CONFIGURATION.read_text()))
        if options.command == "restore":
            choice = {"overwrite": options.overwrite, "dry_run": options.dry_run}
            said = archive.restore(options.snapshot, options.target_time, **choice)
        else:
            said = _run(archive, options.command)
    except (PgBackRestError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if said:
        print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
