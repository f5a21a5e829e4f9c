"""Backups of a site's hosts: the program strata-backup, which the role backup installs, run over SSH."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass

from strata.access.ssh import UNREACHABLE, Unreachable, run_ssh
from strata.catalogue.backup_items import backup_items
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import POSTGRESQL, Host, archived_postgresql, hosts_with

ROLE = "backup"
PROGRAM = "/usr/local/sbin/strata-backup"
UNIT = "strata-backup.service"


@dataclass(frozen=True)
class Program:
    """A program that backs up a host.

    Args:
        path: on the host.
        unit: that runs it.
    """

    path: str
    unit: str


DUMPS, ARCHIVE = Program(PROGRAM, UNIT), Program("/usr/local/sbin/strata-pgbackrest", "strata-pgbackrest.service")
LIST_SECONDS = 120.0
LONGEST_SECONDS = 48 * 3600.0
"""A first backup, or a restore, of homes over a slow line."""


def back_up(context: SiteContext, progress: Progress) -> None:
    """Runs the backup of every host, one after the other, as its timer does.

    Raises:
        UserError: the site has no backups, or those of a host failed; the others are done.
    """
    failures = []
    for host, program in programs(context):
        progress.update(f"backing up {host.name}")
        # by its unit: it goes on if the connection ends, and there is never a second one
        command = f"systemctl start {program.unit} || {{ {program.path} problems; exit 1; }}"
        done = run(context, host, command, LONGEST_SECONDS)
        if done.returncode != 0:
            failures += [f"{host.name}: {line}" for line in (done.stdout.strip() or done.stderr.strip()).splitlines()]
    if failures:
        log = f"`journalctl -u {UNIT} -u {ARCHIVE.unit}` on the host"
        raise UserError("backups failed: " + "; ".join(failures), fix=f"see {log}, fix it, and run the command again")


def snapshots(context: SiteContext) -> list[dict[str, str]]:
    """Every snapshot by time: `id`, `time` (ISO 8601), `item`, `host`.

    Raises:
        UserError: the site has no backups, or a host or its repository cannot be read.
    """
    listed: list[dict[str, str]] = []
    for host, program in programs(context):
        done = run(context, host, f"{program.path} list", LIST_SECONDS)
        if done.returncode != 0:
            raise failed(host, done.stderr)
        listed += json.loads(done.stdout)
    return sorted(listed, key=lambda snapshot: snapshot["time"])


def restore(
    context: SiteContext, snapshot: str, item: str, target: str, *, overwrite: bool, dry_run: bool, progress: Progress
) -> str:
    """Restores an export or a database on the host that stores it.

    Args:
        context: the site.
        snapshot: id, or `latest`.
        item: `export/NAME` or `database/NAME`.
        target: directory on the host, or name of a database there.
        overwrite: whether the target may exist; what was there stays under another name.
        dry_run: checks everything and changes nothing.
        progress: shows what is restored where.

    Returns:
        What was done, in words.

    Raises:
        UserError: no host stores the item, the target exists, there is no such snapshot, or the restore failed.
    """
    hosts = backup_hosts(context)
    items = {name: host for host in hosts for name in backup_items(context.site, host.roles)}
    if item not in items:
        raise UserError(
            f"{item}: no backup host of site {context.site.name} stores it", fix=f"one of {', '.join(items) or 'none'}"
        )
    host = items[item]
    progress.update(f"restoring {item} on {host.name}")
    command = [PROGRAM, "restore", f"--snapshot={snapshot}", f"--what={item}", f"--target={target}"]
    command += ["--overwrite"] * overwrite + ["--dry-run"] * dry_run
    done = run(context, host, shlex.join(command), LONGEST_SECONDS)
    if done.returncode != 0:
        raise failed(host, done.stderr)
    return f"{host.name}: {done.stdout.strip()}"


def programs(context: SiteContext) -> tuple[tuple[Host, Program], ...]:
    """Each host that backs up something, and the program that does.

    Raises:
        UserError: there is none.
    """
    servers = archive_hosts(context)
    dumped = hosts_with(ROLE, context.site, context.cloud_outputs) if servers else backup_hosts(context)
    return (*((host, DUMPS) for host in dumped), *((host, ARCHIVE) for host in servers))


def archive_hosts(context: SiteContext) -> tuple[Host, ...]:
    """The PostgreSQL servers that pgBackRest archives; empty without `hosts.backup.postgresql`."""
    if not archived_postgresql(context.site):
        return ()
    return hosts_with(POSTGRESQL, context.site, context.cloud_outputs)


def backup_hosts(context: SiteContext) -> tuple[Host, ...]:
    """The hosts with the role.

    Raises:
        UserError: there is none.
    """
    hosts = hosts_with(ROLE, context.site, context.cloud_outputs)
    if not hosts:
        raise UserError(
            f"site {context.site.name} has no deployed host with the role {ROLE}",
            fix="set hosts.backup in the site file, add the role, then `strata up`; see docs/backup.md",
        )
    return hosts


def run(context: SiteContext, host: Host, command: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs a command on a host; one that is not reachable has exit status UNREACHABLE and gives the reason."""
    try:
        # a firewall may drop a connection that is silent for hours
        return run_ssh(context, host.address, command, seconds=seconds, options=["-o", "ServerAliveInterval=30"])
    except Unreachable as error:
        return subprocess.CompletedProcess(command, UNREACHABLE, "", str(error))


def failed(host: Host, why: str) -> UserError:
    """The error of a backup or a restore that failed on a host."""
    return UserError(
        f"backup of {host.name}: {why.strip() or 'no answer'}",
        fix="correct it as docs/backup.md describes, and run the command again",
    )
