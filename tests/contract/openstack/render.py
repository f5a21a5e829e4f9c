"""Renders what the openstack_* roles would write for a site: render.py SITE_FILE DIRECTORY."""

from __future__ import annotations

import sys
from pathlib import Path

from strata.site.paths import REPOSITORY
from strata_bench.role_files import RoleFiles

PLAYBOOK = REPOSITORY / "lab/ansible/playbooks/openstack.yml"


def main() -> None:
    """Entry point."""
    site_file, directory = map(Path, sys.argv[1:])
    for file in RoleFiles(site_file, "openstack_service").of_playbook(PLAYBOOK, "controller"):
        target = directory / file["path"].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file["content"])


if __name__ == "__main__":
    main()
