"""Hosts, groups and variables for Ansible."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from strata.models import Site
from strata.provider import provider_of
from strata.site.hosts import hosts
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths

PARENTS: Mapping[str, tuple[str, ...]] = {"kubernetes": ("kube_control_plane", "kube_node")}
"""Groups of groups."""


@dataclass
class Inventory:
    """What the inventory plugin hands to Ansible."""

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
    for host in provider.hosts():
        inventory.add(host.name, host.address, host.roles)
    for host in hosts(site, outputs):
        inventory.add(host.name, host.address, ("strata_hosts", *host.roles))
    for parent, children in PARENTS.items():
        members = [h for c in children for h in inventory.groups.get(c, [])]
        if members:
            inventory.groups[parent] = list(dict.fromkeys(members))
    inventory.variables["all"] = {
        "strata_site": site.name,
        "strata_site_file": str(site_file),
        "strata_domain": site.domain,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(paths.ssh_key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={paths.known_hosts} -o StrictHostKeyChecking=accept-new",
        # mitogen compresses unless told: the processor is slower than the network next to it
        "mitogen_ssh_compression": False,
    }
    inventory.variables |= provider.variables()
    for group in ("base", *sorted(inventory.groups)):
        module_name = f"strata.inventory.{group}"
        if group in inventory.groups or group == "base":
            if find_spec(module_name) is None:
                continue
            found = importlib.import_module(module_name).variables(site, outputs)
            target = "strata_hosts" if group == "base" else group
            inventory.variables.setdefault(target, {}).update(found)
    return inventory
