"""PCI passthrough of the hypervisors, before Kolla-Ansible starts nova on them: IOMMU, vfio-pci, a reboot."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from strata.access.openstack import connect
from strata.cloud.clouds_file import entries
from strata.engine.ansible import PlaybookResult, follow_ansible, playbook_environment
from strata.engine.changes.disruption import ApprovalNeeded, Disruption
from strata.engine.playbook_state import code_files
from strata.errors import UserError
from strata.installers.kolla.commands import DEPLOY, Record
from strata.installers.kolla.configuration import configuration_directory
from strata.installers.kolla.drain import (
    REASON,
    compute_services,
    confirm_migrated,
    drain,
    enable,
    require_movable,
    servers_on,
)
from strata.installers.kolla.files import login, section
from strata.models.hypervisors import passthrough_variables
from strata.models.site import Site
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site.paths import REPOSITORY

if TYPE_CHECKING:
    from openstack.connection import Connection

NAME = "passthrough"
"""Of the record, the log and the inventory."""
PLAYBOOK = REPOSITORY / "ansible" / "playbooks" / "hypervisors.yml"
ROLE = "ansible/roles/pci_passthrough"
WAITING = re.compile(r"(?P<host>\S+) needs a reboot \((?P<why>.*?)\); its configuration is written")
"""Of the role's message about a host that may be in use."""


def inventory(site: Site, reboot: Collection[str]) -> dict[str, object]:
    """Ansible's inventory of the hypervisors with cards; empty where none has any.

    Args:
        site: its cloud is deployed by Kolla-Ansible.
        reboot: names of the hypervisors that may be rebooted.
    """
    cloud, kolla = section(site)
    hosts = {
        host.name: {
            "ansible_host": str(host.address),
            **login(kolla),
            **passthrough_variables(site, host.accelerators, host.pci_passthrough),
            "pci_passthrough_reboot": host.name in reboot,
            "pci_passthrough_next": f"run `strata up {site.name}` again",
        }
        for host in cloud.hypervisors
        if host.accelerators
    }
    return {"all": {"hosts": hosts}} if hosts else {}


def digest(site: Site) -> str:
    """Of what the run depends on: the hypervisors' cards, and the role."""
    files = sorted(code_files((ROLE,)))
    content = [json.dumps(inventory(site, ()), sort_keys=True).encode(), *(f.read_bytes() for f in (PLAYBOOK, *files))]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in content)).hexdigest()


def is_done(context: SiteContext) -> bool:
    """Whether it succeeded with these cards and this role, or no hypervisor has cards."""
    return not inventory(context.site, ()) or Record.of(context.paths).done.get(NAME) == digest(context.site)


def run_passthrough(
    context: SiteContext,
    progress: Progress,
    approved: Callable[[str], bool],
    *,
    variables: Mapping[str, object] | None = None,
) -> PlaybookResult:
    """Prepares the hypervisors, one after the other, and records the success.

    A host that is in use and needs a reboot is emptied first, if the operator allowed it.

    Args:
        context: the site.
        progress: shows the current task.
        approved: whether a host, by its name, may be emptied.
        variables: extra variables, for tests.

    Raises:
        ApprovalNeeded: a host that is in use needs a reboot, and the operator did not allow it.
        UserError: cards differ from site.yaml or share an IOMMU group, a host cannot be emptied, or could not be
            reached; names host and reason.
    """
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    current = digest(context.site)
    entry = entries(context.site.name, section(context.site)[0]).administrator
    deployed = bool(Record.of(context.paths).done.get(DEPLOY))
    try:
        with connect(context, entry) if deployed else nullcontext() as connection:
            result = _prepare(context, progress, connection, approved, variables)
    except (SDKException, ClientException) as error:
        raise UserError(
            f"PCI passthrough: nova refuses a request, or does not respond: {error}",
            fix="once the cause is removed, run the same command again",
        ) from None
    record = Record.of(context.paths)
    record.model_copy(update={"done": record.done | {NAME: current}}).save(context.paths)
    return result


def _prepare(
    context: SiteContext,
    progress: Progress,
    connection: Connection | None,
    approved: Callable[[str], bool],
    variables: Mapping[str, object] | None,
) -> PlaybookResult:
    """Runs the playbook, and again for the rest from each host that had to be emptied; returns the sums.

    Before the first deployment there is no connection.
    """
    total = PlaybookResult()
    rest = [host.name for host in section(context.site)[0].hypervisors if host.accelerators]
    used = _used(connection, rest, progress) if connection else set()
    while rest:
        result, waiting = _play(context, progress, rest, used, variables)
        total.ok, total.changed = total.ok + result.ok, total.changed + result.changed
        done = rest.index(waiting[0]) if waiting else len(rest)
        if connection:
            total.changed += sum(enable(connection, host, progress) for host in rest[:done])
        if connection and waiting:
            _empty(context, progress, connection, *waiting, approved)
            used.remove(waiting[0])
        rest = rest[done:]
    return total


def _used(connection: Connection, hosts: Iterable[str], progress: Progress) -> set[str]:
    """Hypervisors that must not be rebooted as they are: nova starts instances on them, or has some on them."""
    progress.update("checking which hypervisors run instances")
    services, used = compute_services(connection), set()
    for host in hosts:
        service = services.get(host)
        if service is None:
            if known := [name for name in services if name.startswith(f"{host}.")]:
                raise UserError(
                    f"PCI passthrough: nova's name of the hypervisor {host} is {known[0]}: its instances are not found",
                    fix=f"make nova report {host}, the name in cloud.hypervisors: set it as host name "
                    f"(`hostnamectl hostname {host}`) on a host without instances",
                )
            continue  # nova knows nothing of it
        if service.disabled_reason == REASON:
            confirm_migrated(connection, host)
        if service.status != "disabled" or servers_on(connection, host):
            used.add(host)
    return used


def _play(
    context: SiteContext,
    progress: Progress,
    hosts: Sequence[str],
    used: Collection[str],
    variables: Mapping[str, object] | None,
) -> tuple[PlaybookResult, tuple[str, str] | None]:
    """Runs the playbook on hosts in this order; it ends at the first that needs a reboot and is in use.

    Returns:
        The counts; that host, and what the reboot has to change.

    Raises:
        UserError: it failed otherwise.
    """
    file = configuration_directory(context.paths) / f"{NAME}.yml"
    write_private(file, yaml.safe_dump(inventory(context.site, set(hosts) - set(used)), sort_keys=False))
    command: list[str | Path] = [Path(sys.executable).parent / "ansible-playbook", "--inventory", file, PLAYBOOK]
    command += ["--limit", ",".join(hosts)]
    if variables:
        command += ["--extra-vars", json.dumps(dict(variables))]
    # not with mitogen, whose connection does not outlive a reboot
    environment = playbook_environment() | {"ANSIBLE_INVENTORY_ENABLED": "yaml", "ANSIBLE_STRATEGY": "linear"}
    log = context.paths.create().logs / f"kolla-{NAME}.log"
    result, status, last = follow_ansible(command, environment, log, progress)
    if status == 0:
        return result, None
    match = WAITING.search("\n".join(result.failures))
    if match is not None and match["host"] in used:
        return result, (match["host"], match["why"])
    reason = "; ".join(result.failures[:3]) or f"exit status {status}: {' '.join(last)}"
    raise UserError(
        f"PCI passthrough: {reason}",
        fix=f"see {log}; once the cause is removed, run the same command again",
    )


def _empty(
    context: SiteContext,
    progress: Progress,
    connection: Connection,
    host: str,
    why: str,
    approved: Callable[[str], bool],
) -> None:
    """Empties a host for its reboot, if that is possible and allowed."""
    site = context.site.name
    names = require_movable(connection, host, why, f"run `strata up {site}` again")
    if not approved(host):
        because = (why, f"instances: {', '.join(names) or 'none'}")
        raise ApprovalNeeded([Disruption(host, "drained", because)], site)
    drain(connection, host, progress)
