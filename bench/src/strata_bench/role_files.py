"""Files that roles write, as their own tasks have them: nothing of a role is repeated in its tests.

Loading it loads Ansible, which checks its arguments: import it in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import context  # type: ignore[attr-defined]  # ansible ships no types
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.playbook.play import Play
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.context_objects import CLIArgs
from ansible.vars.manager import VariableManager


class RoleFiles:
    """Loads plays of a site with the real inventory plugin, and evaluates arguments of their tasks.

    Secrets come from the store of STRATA_STATE_DIR.

    Args:
        site_file: of the site.
        module: without its collection; its argument `files` is a list of files.
    """

    def __init__(self, site_file: Path, module: str) -> None:
        context.CLIARGS = CLIArgs({"connection": "local"})
        init_plugin_loader([])
        self._loader, self._module = DataLoader(), module
        self.inventory = InventoryManager(loader=self._loader, sources=[str(site_file)])
        self.manager = VariableManager(loader=self._loader, inventory=self.inventory)

    def of_playbook(self, playbook: Path, host: str) -> Iterator[dict[str, str]]:
        """Those of all plays of a playbook, for one host."""
        loaded = Playbook.load(str(playbook), variable_manager=self.manager, loader=self._loader)
        for play in loaded.get_plays():
            yield from self._of_play(play, host, {})

    def of_roles(self, roles: list[str], host: str, facts: Mapping[str, object]) -> Iterator[dict[str, str]]:
        """Those of some roles, on a host with these facts."""
        self.manager.set_host_facts(host, dict(facts))
        source = {"name": "roles", "hosts": host, "gather_facts": False, "roles": roles}
        play = Play().load(source, variable_manager=self.manager, loader=self._loader)
        yield from self._of_play(play, host, {"ansible_managed": "Ansible managed"})

    def _of_play(self, play: Play, host: str, variables: Mapping[str, object]) -> Iterator[dict[str, str]]:
        for task in _tasks(play.compile()):
            if task.action.rpartition(".")[2] == self._module:
                values = self.manager.get_vars(play=play, host=self.inventory.get_host(host), task=task)
                values |= {"ansible_search_path": task.get_search_path(), **variables}
                yield from Templar(loader=self._loader, variables=values).template(task.args["files"])


def _tasks(blocks: list[Any]) -> Iterator[Any]:
    """All tasks in blocks within blocks."""
    for entry in blocks:
        if hasattr(entry, "block"):
            yield from _tasks(entry.block)
        else:
            yield entry
