"""Names that the pinned Kubespray knows; `python -m strata.installers.kubespray.variables` writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from strata.installers.kubespray.source import ensure_source, pinned
from strata.progress import Silent
from strata.site_file.checks.kubespray import NAMES

FILE = NAMES
DEFINED = ("roles/**/defaults/**/*.yml", "roles/**/vars/**/*.yml", "inventory/sample/group_vars/**/*.yml")
"""Files that define variables, with their defaults or, after a `#`, as an example."""
UNDEFINED = {
    "roles/**/tasks/*.yml": ("node_labels", "node_taints"),
    "roles/kubernetes-apps/ansible/templates/coredns-*.j2": ("dns_etchosts",),
}
"""Variables that tasks and templates test for being defined, by the files that do."""
_EXAMPLE = re.compile(r"^# ?([a-z][a-z0-9_A-Z]*):(?: |$)", re.MULTILINE)
_HOSTS = re.compile(r"^ *(?:- )?hosts: ([A-Za-z0-9_:]+)", re.MULTILINE)
_ANSIBLE = frozenset({"all", "localhost"})


def names(source: Path) -> dict[str, object]:
    """Everything that FILE holds; variables by the first file that defines them.

    Args:
        source: directory of the playbooks.
    """
    variables: dict[str, str] = {}
    for file in sorted({file for pattern in DEFINED for file in source.glob(pattern)}):
        text = file.read_text()
        for name in (*(yaml.safe_load(text) or {}), *_EXAMPLE.findall(text)):
            variables.setdefault(str(name), str(file.relative_to(source)))
    # a node's own address is set in the inventory of hosts, not in a file of variables
    example = (source / "inventory/sample/inventory.ini").read_text()
    for name in re.findall(r"([a-z_]+)=", example):
        variables.setdefault(name, "inventory/sample/inventory.ini")
    # without a default, and so in no file that defines variables
    for pattern, undefined in UNDEFINED.items():
        for file in sorted(source.glob(pattern)):
            for name in re.findall(rf"\b({'|'.join(undefined)})\b", file.read_text()):
                variables.setdefault(name, str(file.relative_to(source)))
    groups = {
        group
        for file in (source / "playbooks").glob("*.yml")
        for pattern in _HOSTS.findall(file.read_text())
        for group in pattern.split(":")
    }
    by_file: dict[str, list[str]] = {}
    for name, defined in sorted(variables.items()):
        by_file.setdefault(defined, []).append(name)
    version, git = pinned()
    return {
        "version": version,
        "commit": git.commit,
        "playbooks": sorted(file.name for file in source.glob("*.yml") if "import_playbook" in file.read_text()),
        "groups": sorted(group for group in groups - _ANSIBLE if group),
        "variables": dict(sorted(by_file.items())),
    }


def text(source: Path) -> str:
    """The text of FILE."""
    return json.dumps(names(source), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(ensure_source(Silent())))
