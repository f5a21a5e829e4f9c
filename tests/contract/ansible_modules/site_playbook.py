"""The real ansible-playbook on this machine, as the hosts of a site."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from strata.site.paths import REPOSITORY


@dataclass(frozen=True)
class SitePlaybook:
    """A playbook of one play.

    Args:
        directory: for inventory and playbook.
        site: its name.
        hosts: names of hosts, all of them this machine.
    """

    directory: Path
    site: str
    hosts: Sequence[str] = ("box",)

    def command(self, play: Mapping[str, Any], *options: str, name: str = "hosts") -> list[str]:
        """Writes the playbook and its inventory; returns the command that runs it."""
        book = self.directory / f"{name}.yml"
        book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, **play}]))
        inventory = self.directory / "hosts.ini"
        variables = f"ansible_connection=local ansible_python_interpreter={sys.executable} strata_site={self.site}"
        lines = ["[all]", *self.hosts, "[all:vars]", *variables.split()]
        inventory.write_text("\n".join(lines) + "\n")
        program = str(Path(sys.executable).parent / "ansible-playbook")
        return [program, "-i", str(inventory), str(book), *options]

    def environment(self) -> dict[str, str]:
        """The whole environment."""
        return {
            **os.environ,
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "ini",
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
        }
