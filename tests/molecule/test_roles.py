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
NIGHTLY = {"cluster"}
"""What CI's lab proves too, on hosts that are laid out in another way."""
SCENARIOS = [
    pytest.param(name, marks=pytest.mark.long if name in NIGHTLY else ())
    for name in sorted(p.parent.name for p in ANSIBLE.glob("molecule/*/molecule.yml"))
]
ROLE_GLOB = "roles/*/molecule/*/molecule.yml"
"""Where roles have scenarios of their own."""
SCENARIOS_OF_ROLES = sorted(p.parent.name for p in ANSIBLE.glob(ROLE_GLOB))
# one after the other, beside the tests of the running site
pytestmark = pytest.mark.xdist_group("molecule")
NEEDED = ("podman", "mmdebstrap", "runc")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str) -> None:
    run(scenario)


@pytest.mark.parametrize("scenario", SCENARIOS_OF_ROLES)
def test_scenario_of_a_role(scenario: str) -> None:
    run(scenario, MOLECULE_GLOB=ROLE_GLOB)


def run(scenario: str, **environment: str) -> None:
    """Has molecule run a scenario."""
    if os.geteuid() != 0:
        pytest.skip("molecule's containers boot systemd, which podman allows to root only")
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [str(programs / "molecule"), "test", "--scenario-name", scenario],
        cwd=ANSIBLE,
        env=os.environ | environment | {"PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
