"""Machines that leave the site or were replaced; nothing but SSH and the cluster's API reaches them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from strata.access.kubectl import Unanswered, kubectl
from strata.access.ssh import UNREACHABLE, Unreachable, forget_host_key, host_key_changed, run_ssh
from strata.engine.changes.disruption import Approval
from strata.engine.changes.drain import remove_nodes
from strata.engine.machine_nodes import leaving_machines, machine_nodes, remember_nodes, with_machines
from strata.engine.virtual_address_members import add_members, leaving_members
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext

STOP = "if systemctl cat keepalived >/dev/null 2>&1; then systemctl disable --now keepalived; fi"
STOP_SECONDS = 60.0


def remove_leaving(context: SiteContext, approval: Approval, progress: Progress) -> int:
    """Drains the machines that leave the cluster, resets them and deletes their nodes.

    Comes before the hosts' playbook, after which the firewalls of the others no longer accept them.

    Args:
        context: the site.
        approval: `--yes` also takes nodes whose cluster does not respond.
        progress: receives status messages.

    Returns:
        Number of nodes taken out of the cluster.

    Raises:
        UserError: a node could not be drained.
    """
    leaving = leaving_machines(context)
    removed = remove_nodes(with_machines(context, leaving), leaving, approval, progress) if leaving else 0
    remember_nodes(context)
    return removed


def stop_leaving_members(context: SiteContext, progress: Progress) -> tuple[int, list[str]]:
    """Stops keepalived on members that leave the site.

    Comes before the hosts' playbook, after which the others neither send them packets nor accept theirs.

    Returns:
        How many were stopped, and a line for each that did not respond.

    Raises:
        UserError: keepalived could not be stopped on a machine that responds.
    """
    leaving = leaving_members(context)
    silent: dict[str, str] = {}
    for address, name in leaving.items():
        progress.update(f"stopping keepalived on {name}")
        if (why := _stop(context, name, address)) is not None:
            silent[address] = f"{name} ({address}) does not respond ({why}): disable keepalived there before it returns"
    stopped = leaving.keys() - silent.keys()
    add_members(context, stopped=stopped)
    return len(stopped), list(silent.values())


def _stop(context: SiteContext, name: str, address: str) -> str | None:
    """Stops keepalived on a machine; returns why there is no SSH, if there is none."""
    try:
        done = run_ssh(with_machines(context, {name: address}), address, STOP, seconds=STOP_SECONDS)
    except Unreachable as error:
        return str(error)
    reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    if done.returncode == UNREACHABLE:
        return reason
    if done.returncode != 0:
        raise UserError(
            f"keepalived cannot be stopped on {name} ({address}), which leaves the site: {reason}",
            fix=f"on {name}, run `systemctl disable --now keepalived` and remove the site's SSH key; "
            "then the same command again",
        )
    return None


def accept_replaced(context: SiteContext, names: Collection[str], progress: Progress) -> int:
    """Drops the known host keys of machines that were replaced, and deletes the nodes that they were.

    A machine that still has its key is left alone.

    Args:
        context: the site.
        names: approved by `--replace`; others than machines are passed over.
        progress: receives status messages.

    Returns:
        Number of machines with another key.
    """
    changed = [m for m in context.site.hosts.machines if m.name in names and host_key_changed(context, str(m.address))]
    for machine in changed:
        progress.update(f"accepting the new host key of {machine.name}")
        forget_host_key(context.paths, str(machine.address))
        if machine.name in machine_nodes(context) and context.paths.kubeconfig.exists():
            # kubeadm does not join as a node that is still ready; where no API server answers, it is not
            with suppress(Unanswered):
                kubectl(context, "delete", "node", machine.name, "--ignore-not-found", "--timeout=60s", seconds=90)
    return len(changed)
