"""Restore of the PostgreSQL servers to a point in time: the program strata-pgbackrest of each host, over SSH."""

from __future__ import annotations

import shlex
from datetime import datetime

from strata.access.backups import ARCHIVE, LIST_SECONDS, LONGEST_SECONDS, archive_hosts, failed, run
from strata.access.ssh import UNREACHABLE
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import Host, replicated_postgresql

ITEM = "postgresql"
"""All databases of the site; `database/NAME` is the dump of one."""
UNIT = "strata-pgbackrest-restore"
"""Of the restore on a host: it goes on if the connection ends, and there is never a second one."""


def restore_postgresql(
    context: SiteContext, snapshot: str, moment: datetime | None, *, overwrite: bool, dry_run: bool, progress: Progress
) -> str:
    """Restores all databases to a moment; several servers then copy the one that was restored.

    Args:
        context: the site.
        snapshot: backup from which the WAL is replayed, or `latest` for the last one before the moment.
        moment: with its offset; None for the end of the archive.
        overwrite: whether the databases that are there may be replaced.
        dry_run: checks everything and changes nothing.
        progress: shows the step.

    Returns:
        What was done, in words.

    Raises:
        UserError: the site has no archive, a server is not reachable, or the restore failed; then the servers run as
            before. Or the connection ended, and the restore still runs.
    """
    servers = archive_hosts(context)
    if not servers:
        raise UserError(
            f"site {context.site.name} does not archive PostgreSQL",
            fix="set hosts.backup.postgresql in the site file, then `strata up`; see docs/backup.md",
        )
    chosen = _chosen(context, servers)
    command = [ARCHIVE.path, "restore", f"--snapshot={snapshot}"]
    command += [f"--target-time={moment.isoformat()}"] if moment else []
    progress.update(f"checking the repository on {chosen.name}")
    checked = run(context, chosen, shlex.join([*command, "--dry-run"]), LIST_SECONDS)
    if checked.returncode != 0:
        raise failed(chosen, checked.stderr)
    if dry_run:
        return f"{chosen.name}: {checked.stdout.strip()}"
    if not overwrite:
        raise UserError(
            f"a restore replaces all databases of site {context.site.name}", fix="stop their clients, add --overwrite"
        )
    others = [host for host in servers if host != chosen] if replicated_postgresql(context.site) else []
    try:
        for host in others:
            progress.update(f"stopping {host.name}")
            _do(context, host, "systemctl stop patroni")
        progress.update(f"restoring {chosen.name}")
        unit = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={UNIT}"]
        said = _do(context, chosen, shlex.join([*unit, *command, "--overwrite"]))
    except BaseException as error:  # Ctrl-C too
        _require_ended(context, chosen, error)
        for host in others:
            run(context, host, "systemctl start patroni", LIST_SECONDS)
        raise
    for host in others:
        progress.update(f"copying the databases to {host.name}")
        _do(context, host, f"{ARCHIVE.path} join")
    return f"{chosen.name}: {said}"


def _chosen(context: SiteContext, servers: tuple[Host, ...]) -> Host:
    """The primary; the first server where there is none.

    Raises:
        UserError: a server is not reachable; it would go on with the databases of before.
    """
    roles = {host: _do(context, host, f"{ARCHIVE.path} role", LIST_SECONDS) for host in servers}
    return next((host for host, role in roles.items() if role == "primary"), servers[0])


def _require_ended(context: SiteContext, chosen: Host, cause: BaseException) -> None:
    """Checks that no restore runs: with the others started beside it, there would be two primaries.

    Raises:
        UserError: it runs, or the host is not reachable.
    """
    if run(context, chosen, f"systemctl is-active --quiet {UNIT}", LIST_SECONDS).returncode in (0, UNREACHABLE):
        raise UserError(
            f"backup of {chosen.name}: the connection ended, the restore may still run; the other servers are stopped",
            fix=f"wait until `systemctl is-active {UNIT}` on {chosen.name} prints inactive, and run the command again",
        ) from cause


def _do(context: SiteContext, host: Host, command: str, seconds: float = LONGEST_SECONDS) -> str:
    done = run(context, host, command, seconds)
    if done.returncode != 0:
        raise failed(host, done.stderr)
    return done.stdout.strip()
