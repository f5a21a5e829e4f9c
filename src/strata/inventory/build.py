"""Hosts, groups and variables for Ansible."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from strata.access.route import ROOT, route
from strata.inventory.playbooks import host_variables, playbook_roles
from strata.inventory.role_variables import role_host_variables, role_variables
from strata.layers import NODES_GROUP
from strata.models.site import Site
from strata.provider import provider_of
from strata.roles import KUBERNETES_ROLES, roles, roles_of
from strata.site.host_list import conditions, hosts, running_roles
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths

KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 10, 9
"""A host that loses power during a playbook is unreachable after a minute and a half, and not after minutes."""


@dataclass
class Inventory:
    """What the inventory plugin outputs to Ansible."""

    hosts: dict[str, dict[str, object]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    variables: dict[str, dict[str, object]] = field(default_factory=dict)
    """Per group."""

    def add(self, host: str, address: str, groups: tuple[str, ...]) -> None:
        """One host with its address and groups."""
        self.hosts[host] = {"ansible_host": address}
        for group in groups:
            self.groups.setdefault(group, []).append(host)


def build_inventory(site: Site, outputs: CloudOutputs | None, site_file: Path) -> Inventory:
    """The inventory of a site.

    Args:
        site: the model.
        outputs: instances of the cloud layer; None before it ran, then only what has a fixed address is there.
        site_file: where the site was read; the lookup plugins open it again.
    """
    paths = SitePaths(site.name)
    inventory = Inventory()
    provider = provider_of(site)
    common = " ".join(
        f"-o {setting}"
        for setting in (
            f"UserKnownHostsFile={paths.known_hosts}",
            "StrictHostKeyChecking=accept-new",
            f"ServerAliveInterval={KEEPALIVE_SECONDS}",
            f"ServerAliveCountMax={KEEPALIVE_COUNT}",
        )
    )
    for host in provider.hosts():
        inventory.add(host.name, host.address, host.roles)
    met = conditions(site)
    for host in hosts(site, outputs):
        running = tuple(name for name in roles_of(host.roles, met) if name in running_roles(site, host.roles))
        nodes = (NODES_GROUP,) if set(KUBERNETES_ROLES).intersection(host.roles) else ()
        inventory.add(host.name, host.address, (*running, *nodes))
        inventory.hosts[host.name] |= host_variables(running)
        for role in host.roles:
            inventory.hosts[host.name] |= role_host_variables(role, site, host.name)
        if way := route(site, outputs, paths, host.address):
            settings = shlex.join(word for setting in way for word in ("-o", setting))
            inventory.hosts[host.name]["ansible_ssh_common_args"] = f"{common} {settings}"
    inventory.variables["all"] = {
        "strata_site": site.name,
        "strata_site_file": str(site_file),
        "strata_domain": site.domain,
        **playbook_roles(),
        "ansible_user": site.hosts.ssh_user,
        "ansible_ssh_private_key_file": str(paths.ssh_key),
        "ansible_ssh_common_args": common,
        # mitogen compresses by default: the processor is slower than the network next to it
        "mitogen_ssh_compression": False,
        # its own options come first, and OpenSSH takes the first
        "mitogen_ssh_keepalive_interval": KEEPALIVE_SECONDS,
        "mitogen_ssh_keepalive_count": KEEPALIVE_COUNT,
    }
    if site.hosts.ssh_user != ROOT:
        inventory.variables["all"]["ansible_become"] = True
        for host in provider.hosts():
            inventory.hosts[host.name] |= {"ansible_user": ROOT}
    inventory.variables |= provider.variables()
    for role in roles():
        if role in inventory.groups:
            inventory.variables[role] = role_variables(role, site, outputs)
    return inventory
