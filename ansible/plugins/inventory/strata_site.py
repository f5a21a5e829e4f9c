"""Ansible inventory from a site file: `ansible-playbook -i inventories/lab/site.yaml …`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.template import trust_as_template

from strata.errors import UserError
from strata.inventory import Template
from strata.inventory.build import build_inventory
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.site_file.loader import load_site

DOCUMENTATION = """
name: strata_site
short_description: Strata site file
description: Hosts, groups and variables from a site.yaml and the cloud layer's outputs.
options: {}
"""


def trusted(value: Any) -> Any:
    """Marks our own Jinja expressions as templates; everything else stays plain data."""
    if isinstance(value, Template):
        return trust_as_template(value.expression)
    if isinstance(value, dict):
        return {k: trusted(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [trusted(v) for v in value]
    return value


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # ansible ships no types
    """Reads one site file."""

    NAME = "strata_site"

    def verify_file(self, path: str) -> bool:
        """Site files are called site.yaml."""
        return bool(super().verify_file(path)) and Path(path).name == "site.yaml"

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Fills the inventory."""
        super().parse(inventory, loader, path, cache)
        try:
            site = load_site(Path(path))
            built = build_inventory(site, CloudOutputs.load(SitePaths(site.name)), Path(path).absolute())
        except UserError as error:
            raise AnsibleParserError(str(error)) from error
        for group, hosts in built.groups.items():
            inventory.add_group(group)
            for host in hosts:
                inventory.add_host(host, group=group)
        for host, variables in built.hosts.items():
            for key, value in variables.items():
                inventory.set_variable(host, key, trusted(value))
        for group, variables in built.variables.items():
            if group != "all" and group not in built.groups:
                continue
            for key, value in variables.items():
                inventory.set_variable(group, key, trusted(value))
