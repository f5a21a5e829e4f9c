"""Renders what the openstack_* roles would write for a site: render.py SITE_FILE DIRECTORY

Loads the real playbook with the real inventory plugin and evaluates the arguments of each `openstack_service` task, so
that nothing of the roles is repeated here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import context  # type: ignore[attr-defined]  # ansible ships no types
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.context_objects import CLIArgs
from ansible.vars.manager import VariableManager

REPOSITORY = Path(__file__).resolve().parents[3]


def tasks(blocks: list[Any]) -> Iterator[Any]:
    """All tasks in blocks within blocks."""
    for entry in blocks:
        if hasattr(entry, "block"):
            yield from tasks(entry.block)
        else:
            yield entry


def rendered(site_file: Path) -> Iterator[dict[str, str]]:
    """Each file with path and content."""
    context.CLIARGS = CLIArgs({"connection": "local"})
    init_plugin_loader([])
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(site_file)])
    manager = VariableManager(loader=loader, inventory=inventory)
    playbook = Playbook.load(
        str(REPOSITORY / "lab/ansible/playbooks/openstack.yml"), variable_manager=manager, loader=loader
    )
    host = inventory.get_host("controller")
    for play in playbook.get_plays():
        for task in tasks(play.compile()):
            if task.action.rpartition(".")[2] != "openstack_service":
                continue
            variables = manager.get_vars(play=play, host=host, task=task)
            variables["ansible_search_path"] = task.get_search_path()
            yield from Templar(loader=loader, variables=variables).template(task.args["files"])


def main() -> None:
    """Entry point."""
    site_file, directory = Path(sys.argv[1]), Path(sys.argv[2])
    for file in rendered(site_file):
        target = directory / file["path"].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file["content"])


if __name__ == "__main__":
    main()
