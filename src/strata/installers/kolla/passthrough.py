"""PCI passthrough of the hypervisors, before Kolla-Ansible starts nova on them: IOMMU, vfio-pci, a reboot."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import yaml

from strata.access.openstack import connect
from strata.cloud.clouds_file import entries
from strata.engine.ansible import PlaybookResult, follow_ansible, playbook_environment
from strata.engine.playbook_state import code_files
from strata.errors import UserError
from strata.installers.kolla.commands import Record
from strata.installers.kolla.configuration import configuration_directory
from strata.installers.kolla.files import login, section
from strata.models.hypervisors import passthrough_variables
from strata.models.site import Site
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site.paths import REPOSITORY

NAME = "passthrough"
"""Of the record, the log and the inventory."""
PLAYBOOK = REPOSITORY / "ansible" / "playbooks" / "hypervisors.yml"
ROLE = "ansible/roles/pci_passthrough"


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
    return hashlib.sha256(b"\0".join(hashlib.sha256(one).digest() for one in content)).hexdigest()


def is_done(context: SiteContext) -> bool:
    """Whether it succeeded with these cards and this role, or no hypervisor has cards."""
    return not inventory(context.site, ()) or Record.of(context.paths).done.get(NAME) == digest(context.site)


def run_passthrough(
    context: SiteContext, progress: Progress, *, variables: Mapping[str, object] | None = None
) -> PlaybookResult:
    """Prepares the hypervisors, one after the other, and records the success.

    Args:
        context: the site.
        progress: shows the current task.
        variables: extra variables, for tests.

    Raises:
        UserError: cards differ from site.yaml or share an IOMMU group, a host that is in use needs a reboot, or a host
            could not be reached; names host and reason.
    """
    wanted = digest(context.site)
    file = configuration_directory(context.paths) / f"{NAME}.yml"
    write_private(file, yaml.safe_dump(inventory(context.site, _idle(context, progress)), sort_keys=False))
    command: list[str | Path] = [Path(sys.executable).parent / "ansible-playbook", "--inventory", file, PLAYBOOK]
    if variables:
        command += ["--extra-vars", json.dumps(dict(variables))]
    # not with mitogen, whose connection does not outlive a reboot
    environment = playbook_environment() | {"ANSIBLE_INVENTORY_ENABLED": "yaml", "ANSIBLE_STRATEGY": "linear"}
    log = context.paths.create().logs / f"kolla-{NAME}.log"
    result, status, last = follow_ansible(command, environment, log, progress)
    if status != 0:
        reason = "; ".join(result.failures[:3]) or f"exit status {status}: {' '.join(last)}"
        raise UserError(
            f"PCI passthrough: {reason}",
            fix=f"see {log}; once the cause is removed, run the same command again",
            see="a-hypervisor-cannot-hand-out-its-cards",
        )
    record = Record.of(context.paths)
    record.model_copy(update={"done": record.done | {NAME: wanted}}).save(context.paths)
    return result


def _idle(context: SiteContext, progress: Progress) -> set[str]:
    """Hypervisors that may be rebooted: all before the first deployment; later those that nova knows nothing of, or
    starts nothing on and has nothing on.
    """
    cloud, _ = section(context.site)
    names = {host.name for host in cloud.hypervisors}
    if not Record.of(context.paths).done.get("deploy"):
        return names
    progress.update("checking which hypervisors run instances")
    with connect(context, entries(context.site.name, cloud).administrator) as connection:
        services = {one.host: one.status for one in connection.compute.services(binary="nova-compute")}
        return {
            name
            for name in names
            if name not in services
            or (
                services[name] == "disabled"
                and not any(True for _ in connection.compute.servers(all_projects=True, host=name))
            )
        }
