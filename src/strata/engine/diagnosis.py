"""Finds out whether a step failed because a host has no disk space, port or memory left, which tools report poorly."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable

from strata.access.ssh import all_addresses
from strata.errors import UserError
from strata.observe import exhaustion
from strata.observe.exhaustion import ResourceExhaustion, TakenPort
from strata.observe.hosts import host_roles, ssh
from strata.site.context import SiteContext


def diagnose(context: SiteContext, error: UserError, hosts: Iterable[str]) -> UserError:
    """The error with the resources that the hosts ran out of; the same error if they did not, or do not respond.

    Args:
        context: the site.
        error: what a step failed with.
        hosts: names of those where it failed.
    """
    by_host = ask(context, hosts)
    for name, lacking in by_host.items():
        for full in lacking.full:
            return UserError(
                f"{name} has no disk space left at {full}: {error.message}",
                fix=f"on {name}, `du -xh --max-depth=2 {full.mount} | sort -h | tail` shows what takes the space; "
                "remove what is not needed or enlarge it, then run the same command again: it resumes",
                see="the-disk-is-full",
            )
        for taken in lacking.taken:
            return UserError(
                f"{name}: {taken}: {error.message}",
                fix=f"on {name}, {_end(taken)} frees the port; then run the same command again: it resumes",
                see="a-port-or-address-is-already-taken",
            )
    if killed := [f"{unit} of {name}" for name, lacking in by_host.items() for unit in dict.fromkeys(lacking.killed)]:
        error.fix = (
            f"{error.fix or ''}\n       the kernel has ended {', '.join(killed)} because memory ran out; if that is "
            "why, choose a larger flavor"
        ).lstrip()
    return error


def ask(context: SiteContext, hosts: Iterable[str]) -> dict[str, ResourceExhaustion]:
    """The resources that each of the hosts ran out of; hosts that do not respond are omitted."""
    addresses = all_addresses(context)
    roles = host_roles(context)
    known = [name for name in dict.fromkeys(hosts) if name in addresses]
    if not known:
        return {}
    with concurrent.futures.ThreadPoolExecutor(len(known)) as pool:
        answers = pool.map(lambda name: ssh(context, addresses[name], exhaustion.SCRIPT)[0], known)
        return {
            name: exhaustion.parse(roles.get(name, ()), output.splitlines())
            for name, output in zip(known, answers, strict=True)
            if output
        }


def _end(taken: TakenPort) -> str:
    return f"`systemctl disable --now {taken.holder}`" if taken.holder.endswith(".service") else f"`kill {taken.pid}`"
