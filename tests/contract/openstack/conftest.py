"""The rendered configuration of the lab's controller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

HERE = Path(__file__).parent


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
