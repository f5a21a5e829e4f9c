"""Hosts with many cards: how many candidates the real placement makes of them with the configuration from site.yaml."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from strata.cloud.card_placement import MOST_CANDIDATES, MOST_CARDS
from strata.installers.kolla.files import public_files
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

from .rendering import HERE

HOSTS = 3


def test_candidates_are_bounded_and_of_every_host(openstack_python: Path, tmp_path: Path) -> None:
    """Three hosts with six cards would make 2,160 of one instance with six."""
    file = tmp_path / "placement.conf"
    file.write_text(public_files(load_site(find_site("tacc")))["config/placement.conf"])
    arguments = [str(file), str(tmp_path), str(HOSTS), str(MOST_CARDS)]
    command = [str(openstack_python), str(HERE / "placement_candidates.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    output = json.loads(done.stdout)
    print(output)
    assert output["candidates"] == output["whole"] == MOST_CANDIDATES
    assert output["hosts"] == HOSTS
