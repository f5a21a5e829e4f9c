"""Runs of PCI passthrough on a Kolla cloud's hypervisors that are this machine, with published machines' sysfs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from strata.installers.kolla.configuration import configuration_directory
from strata.installers.kolla.passthrough import run_passthrough
from strata.progress import Silent
from strata.site.context import SiteContext


def never(_host: str) -> bool:
    """The operator allowed nothing."""
    return False


def always(_host: str) -> bool:
    """The operator allowed everything."""
    return True


def run(context: SiteContext, root: Path, approved: Callable[[str], bool] = never) -> int:
    """Number of changes; below root is a directory for each host."""
    host = f"{root}/{{{{ inventory_hostname }}}}"
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "pci_passthrough_etc": f"{host}/etc",
        "pci_passthrough_sysfs": f"{host}/sys",
        "pci_passthrough_cpuinfo": f"{host}/cpuinfo",
    }
    return run_passthrough(context, Silent(), approved, variables=variables).changed


def rebooted_hosts(context: SiteContext) -> dict[str, bool]:
    """Whether the last run might reboot a host, by its name."""
    hosts = inventory_of(context)
    return {name: host["pci_passthrough_reboot"] for name, host in hosts.items()}


def inventory_of(context: SiteContext) -> dict[str, Any]:
    """Variables of the last run, by host."""
    text = (configuration_directory(context.paths) / "passthrough.yml").read_text()
    hosts: dict[str, Any] = yaml.safe_load(text)["all"]["hosts"]
    return hosts
