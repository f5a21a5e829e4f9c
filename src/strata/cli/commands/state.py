"""Share the state of a site with a team."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from strata.cli.arguments import SiteArgument, YesOption, site_file
from strata.engine.run_lock import local_lock
from strata.errors import UserError
from strata.models.state import SharedState
from strata.shared_state import lease
from strata.shared_state.bucket import Bucket
from strata.shared_state.move import describe, to_bucket, to_directory
from strata.shared_state.session import lock
from strata.shared_state.snapshot import digest, read_files
from strata.shared_state.working_copy import WorkingCopy
from strata.site.paths import SitePaths
from strata.site_file.loader import load_site

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.command()
def show(site: SiteArgument) -> None:
    """Show the location of the state, the holder of the lock, and whether this host has unsaved changes."""
    copy = WorkingCopy(*_load(site))
    newest, seen = copy.newest(), lease.look(copy.bucket)
    copy.require_not_moved(newest)
    held = (
        "free" if seen is None else f"{seen.holder}, {'EXPIRED, ' if seen.expired else ''}renewed {seen.age:.0f} s ago"
    )
    changed = digest(read_files(copy.paths.root)) != copy.record.digest
    typer.echo(f"state: {copy.bucket.url}, snapshot {newest or 'none'}")
    typer.echo(f"lock: {held}")
    typer.echo(f"{copy.paths.root}: of snapshot {copy.record.generation}, {'unsaved' if changed else 'no'} changes")


@app.command()
def move(
    site: SiteArgument,
    back: Annotated[bool, typer.Option("--back", help="Move the state to the local directory on this host.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved; change nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Move the state from the local directory to the bucket that `state` names, or back. Every byte is verified."""
    paths, state = _load(site)
    with local_lock(paths, "state move"):
        _print(*describe(paths, state, back=back))
        if dry_run:
            return
        if not yes and not typer.confirm("Go on?"):
            raise typer.Exit(1)
        with Console(stderr=True).status("moving") as status:
            generation = (to_directory if back else to_bucket)(paths, state, status)
    _print(f"moved; snapshot {generation} is verified")


@app.command()
def unlock(
    site: SiteArgument,
    force: Annotated[bool, typer.Option("--force", help="Remove the lock even if its holder is active.")] = False,
) -> None:
    """Remove the lock of an interrupted run that cannot be resumed on its host."""
    paths, state = _load(site)
    holder = lease.unlock(Bucket(state.s3, paths.site), force=force)
    _print(f"removed the lock of {holder}" if holder else "there is no lock")


@app.command()
def discard(site: SiteArgument, yes: YesOption = False) -> None:
    """Set this host's unsaved state aside and download the newest snapshot."""
    paths, state = _load(site)
    if not yes and not typer.confirm(f"Replace {paths.root} by the newest snapshot?"):
        raise typer.Exit(1)
    with local_lock(paths, "state discard"):
        aside = WorkingCopy(paths, state).discard()
    _print(f"the old files are in {aside}" if aside else "there were no unsaved changes")


@app.command()
def reencrypt(site: SiteArgument) -> None:
    """Encrypt the state for the operators in site.yaml, and delete all older snapshots."""
    paths, state = _load(site)
    with local_lock(paths, "state reencrypt"), Console(stderr=True).status("encrypting") as status:
        copy = WorkingCopy(paths, state)
        with lock(copy, "state reencrypt", status):
            copy.pull()
            copy.push(always=True)
            removed = copy.prune(1)
    readers = ", ".join(operator.name for operator in state.operators) or "who knows the passphrase"
    _print(f"snapshot {copy.record.generation} opens for {readers}; deleted {removed} older snapshots")
    _print(f"a removed operator knew the secrets: `strata secrets rotate {site} all`, then `strata up {site}`")


def _load(site: str) -> tuple[SitePaths, SharedState]:

    file = site_file(site)
    model = load_site(file)
    if model.state is None:
        raise UserError(f"{file} has no state", fix="add state: {s3: {bucket: …}} to it")
    return SitePaths(model.name).create(), model.state


def _print(*lines: str) -> None:
    Console(stderr=True).print(*lines, sep="\n", highlight=False, soft_wrap=True, markup=False)
