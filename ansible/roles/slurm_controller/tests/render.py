"""Renders what the Slurm roles write to a host: render.py SITE_FILE HOST RELEASE → JSON, {path, content, owner, mode}.

Loads the roles with the real inventory plugin and evaluates the arguments of each `strata_files` task, so that nothing
of the roles is repeated here. Secrets come from the store of STRATA_STATE_DIR.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import context  # type: ignore[attr-defined]  # ansible ships no types
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.context_objects import CLIArgs
from ansible.vars.manager import VariableManager

ROLES = ["slurm_common", "slurm_controller", "slurm_node"]


def tasks(blocks: list[Any]) -> Iterator[Any]:
    """All tasks in blocks within blocks."""
    for entry in blocks:
        if hasattr(entry, "block"):
            yield from tasks(entry.block)
        else:
            yield entry


def rendered(site_file: Path, name: str, release: str) -> Iterator[dict[str, str]]:
    """Each file of a host that is a container of a Debian release."""
    context.CLIARGS = CLIArgs({"connection": "local"})
    init_plugin_loader([])
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(site_file)])
    manager = VariableManager(loader=loader, inventory=inventory)
    host = inventory.get_host(name)
    facts = {"virtualization_tech_guest": ["container"], "distribution_major_version": release}
    manager.set_host_facts(name, facts)
    own = [role for role in ROLES if role in {group.name for group in host.get_groups()}]
    source = {"name": "Slurm", "hosts": name, "gather_facts": False, "roles": own}
    play = Play().load(source, variable_manager=manager, loader=loader)
    for task in tasks(play.compile()):
        if task.action.rpartition(".")[2] == "strata_files":
            variables = manager.get_vars(play=play, host=host, task=task)
            variables["ansible_search_path"] = task.get_search_path()
            variables["ansible_managed"] = "Ansible managed"
            yield from Templar(loader=loader, variables=variables).template(task.args["files"])


if __name__ == "__main__":
    print(json.dumps(list(rendered(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))))
