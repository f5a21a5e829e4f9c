"""A user leaves the site: the account is closed first, then ends what the services have, and the account is removed."""

from __future__ import annotations

import shlex
from typing import Any

from strata.access.kubectl import Unanswered, ask_program
from strata.access.ssh import Unreachable, run_ssh
from strata.access.users import disable_user, remove_user
from strata.catalogue.leaving_program import LeavingProgram
from strata.catalogue.needs.bucket import secret_names
from strata.catalogue.needs.shared_volume import SharedVolume
from strata.catalogue.site_services import installed, s3_endpoint
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with

ARCHIVE = ".archive"
"""In a shared volume: folders of users who have left; no user has this name."""
SIZE = """\
cd {path} || exit 0
[ -d {name} ] || exit 0
du -sh {name} | cut -f1
"""
MOVE = "mkdir -p -m 0700 {archive} && mv -T {name} {archive}/{name}-$(date -u +%Y%m%dT%H%M%SZ)"
FOLDER_SECONDS = 300.0


def leave(context: SiteContext, name: str, progress: Progress, *, keep_home: bool, dry_run: bool) -> list[str]:
    """Ends all of a user's access, and removes the account last: a run that was cut is repeated from the start.

    Args:
        context: the site.
        name: of the user.
        progress: shows the current step.
        keep_home: whether folders stay for the next user of that name, instead of being moved aside.
        dry_run: whether nothing is changed.

    Returns:
        what ended, or would.

    Raises:
        UserError: there is no such user, the site file names it, or a part did not respond (the account is disabled).
    """
    _check(context, name)
    progress.update(f"disabling the account of {name}")
    disable_user(context, name, dry_run=dry_run)
    ended: list[str] = []
    by_volume: dict[SharedVolume, str] = {}
    for service, program in _programs(context):
        progress.update(f"{program.title}: ending those of {name}")
        answer = _run(context, program, name, dry_run=dry_run)
        ended += [f"{service.name}: {text}" for text in answer.get("ended", ())]
        folders = answer.get("folders", {})
        volumes = [need for need in service.needs(service.of(context.site)) if isinstance(need, SharedVolume)]
        by_volume |= {volume: folders[volume.name] for volume in volumes if volume.name in folders}
    for volume, folder in by_volume.items():
        if keep_home:
            ended.append(f"{volume.name}: {folder} is kept, for the next user {name}")
            continue
        progress.update(f"moving the folder of {name} in {volume.name}")
        if size := _move(context, volume, folder, dry_run=dry_run):
            ended.append(f"{volume.name}: {folder} ({size}), moved to {ARCHIVE}")
    if not dry_run:
        progress.update(f"removing the account of {name}")
        remove_user(context, name)
    return [*ended, f"account {name}"]


def still_valid(context: SiteContext) -> str:
    """What a user who has left may know, and the commands that replace it; empty for nothing."""
    storage, tenants = s3_endpoint(context.site), context.site.platform.tenants
    if storage is None or not tenants:
        return ""
    names, site = " ".join(secret_names(tenant.name)[1] for tenant in tenants), context.site.name
    how = (
        f"replace it at {storage.url} and where `secrets` of {context.site_file} has {names}, then `strata up {site}`"
        if storage.external
        else f"`strata secrets rotate {site} {names}`, then `strata up {site}`"
    )
    return f"the key of a bucket that the user's tenant shares; name those of the user's tenants only: {how}"


def _programs(context: SiteContext) -> list[tuple[Any, LeavingProgram]]:
    programs = [(service, program) for service in installed(context.site) for program in service.leaving]
    return sorted(programs, key=lambda pair: not pair[1].issues)


def _check(context: SiteContext, name: str) -> None:
    """Refuses who is still in the site file: `up` would make the user again."""
    for tenant in context.site.platform.tenants:
        if name in {person.name for person in (*tenant.members, *tenant.principal_investigators)}:
            raise UserError(
                f"{context.site_file} names {name} in tenant {tenant.name}",
                fix="remove the name from platform.tenants, and run `strata up` first",
                see="users-cannot-be-managed",
            )


def _run(context: SiteContext, program: LeavingProgram, name: str, *, dry_run: bool) -> dict[str, Any]:
    tenants = [tenant.name for tenant in context.site.platform.tenants]
    request = {"name": name, "tenants": tenants, "dry_run": dry_run}
    target = (f"--namespace={program.namespace}", program.workload, f"--container={program.container}")
    try:
        answer = ask_program(context, *target, command=program.command, request=request, seconds=program.seconds)
    except Unanswered as error:
        answer = {"problem": str(error)}
    if problem := answer.get("problem"):
        raise _unfinished(context, f"{program.title}: {problem}")
    return answer


def _move(context: SiteContext, volume: SharedVolume, folder: str, *, dry_run: bool) -> str:
    """Moves a folder of a volume aside; returns its size, empty where there is none."""
    (host, *_) = hosts_with("nfs_server", context.site, context.cloud_outputs)
    script = (SIZE if dry_run else SIZE + MOVE).format(
        path=shlex.quote(str(volume.path(context.site))), name=shlex.quote(folder), archive=ARCHIVE
    )
    command = f"sh -c {shlex.quote(script)}"
    try:
        done = run_ssh(context, host.address, command, seconds=FOLDER_SECONDS)
    except Unreachable as error:
        raise _unfinished(context, f"{host.name}: {error}") from None
    if done.returncode != 0:
        raise _unfinished(context, f"{host.name}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def _unfinished(context: SiteContext, why: str) -> UserError:
    return UserError(
        f"not all access has ended: {why}",
        fix=f"`strata status {context.site.name}`, then the same command again",
        see="users-cannot-be-managed",
    )
