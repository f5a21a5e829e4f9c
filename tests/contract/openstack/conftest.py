"""OpenStack's own environment, as the role openstack_common installed it, and the rendered configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata_lab.controller import environment_directory

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def openstack_python() -> Path:
    """Python of the environment; skips where no lab was ever up on this machine."""
    directory = Path(os.environ.get("STRATA_OPENSTACK_ENVIRONMENT") or environment_directory())
    program = directory / "bin" / "python"
    if not program.exists():
        pytest.skip(f"no OpenStack in {directory}: the first `strata up` of a lab installs it")
    return program


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root directory with every file that the roles write on the lab's controller."""
    root = tmp_path_factory.mktemp("controller")
    environment = os.environ | {
        "STRATA_STATE_DIR": str(tmp_path_factory.mktemp("state")),
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
    }
    site = REPOSITORY / "inventories" / "lab" / "site.yaml"
    command = [sys.executable, str(HERE / "render.py"), str(site), str(root)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return root
