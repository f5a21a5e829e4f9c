"""`strata restore`."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console

from strata.access import backups, postgresql_restore
from strata.cli.arguments import SiteArgument
from strata.cli.context import load_context
from strata.engine.run_lock import site_lock
from strata.errors import UserError


def restore(
    site: SiteArgument,
    what: Annotated[
        str,
        typer.Option("--what", metavar="WHAT", help="export/NAME, database/NAME, or postgresql for all databases."),
    ],
    target: Annotated[
        str | None, typer.Option("--target", metavar="TARGET", help="Directory on the host, or name of a database.")
    ] = None,
    target_time: Annotated[
        str | None,
        typer.Option(
            "--target-time",
            metavar="TIME",
            help="With --what postgresql: time to restore to, ISO 8601 with offset. Default: the last archived change.",
        ),
    ] = None,
    snapshot: Annotated[
        str, typer.Option("--snapshot", metavar="SNAPSHOT", help="ID of a snapshot, as listed by `strata backup`.")
    ] = "latest",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Allow an existing target; its content is renamed, not deleted.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything without changes.")] = False,
) -> None:
    """Restore an export or a database from a snapshot, or all databases to a point in time."""
    context = load_context(site)
    choice = {"overwrite": overwrite, "dry_run": dry_run}
    # an `up` at the same time would start the servers that a restore stopped
    lock = nullcontext() if dry_run else site_lock(context.paths, "restore", context.site.state)
    with lock, Console(stderr=True).status("restoring") as status:
        if what == postgresql_restore.ITEM:
            if target is not None:
                raise UserError("--target: all databases are restored in place", fix="leave --target out")
            moment = _moment(target_time)
            done = postgresql_restore.restore_postgresql(context, snapshot, moment, progress=status, **choice)
        elif target is None or target_time is not None:
            raise UserError(f"--what {what} needs --target and takes no --target-time", fix="--target TARGET")
        else:
            done = backups.restore(context, snapshot, what, target, progress=status, **choice)
    Console().print(done, highlight=False, markup=False, soft_wrap=True)


def _moment(text: str | None) -> datetime | None:
    """A moment with its offset from UTC.

    Raises:
        UserError: the text is not such a moment.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UserError(
            f"--target-time {text}: is not a time with an offset", fix="--target-time 2026-03-01T14:30:00+01:00"
        )
    return moment
