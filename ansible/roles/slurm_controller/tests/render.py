"""Renders what the Slurm roles write: render.py SITE_FILE HOST RELEASE → JSON, {path, content, owner, mode}."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from strata_bench.role_files import RoleFiles

ROLES = ["slurm_common", "slurm_controller", "slurm_node"]


def main() -> None:
    """Entry point: the host is a container of a Debian release."""
    site_file, name, release = sys.argv[1:]
    files = RoleFiles(Path(site_file), "strata_files")
    groups = {group.name for group in files.inventory.get_host(name).get_groups()}
    facts = {"virtualization_tech_guest": ["container"], "distribution_major_version": release}
    print(json.dumps(list(files.of_roles([role for role in ROLES if role in groups], name, facts))))


if __name__ == "__main__":
    main()
