"""Runs the molecule scenarios of the roles: create, converge, second run without a change, testinfra, destroy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

ANSIBLE = REPOSITORY / "ansible"
SCENARIOS = [
    # molecule puts the scenario's name in the place of each *
    pytest.param(
        file.parent.name,
        f"{file.relative_to(ANSIBLE).parents[1]}/*/molecule.yml",
        id=file.parent.name,
    )
    # roles may have scenarios of their own
    for glob in ("molecule/*/molecule.yml", "roles/*/molecule/*/molecule.yml")
    for file in sorted(ANSIBLE.glob(glob))
]
# one after the other, beside the tests of the running site
pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("molecule")]
NEEDED = ("podman", "mmdebstrap", "runc")


@pytest.mark.parametrize(("scenario", "glob"), SCENARIOS)
def test_scenario(scenario: str, glob: str) -> None:
    """Has molecule run a scenario."""
    if os.geteuid() != 0:
        pytest.skip("molecule's containers boot systemd, which podman allows to root only")
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [str(programs / "molecule"), "test", "--scenario-name", scenario],
        cwd=ANSIBLE,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1", "MOLECULE_GLOB": glob},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20000:]
