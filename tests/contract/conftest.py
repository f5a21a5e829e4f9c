"""What contract tests of several parts need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata_lab.controller import environment_directory


@pytest.fixture(scope="session")
def openstack_python() -> Path:
    """Python of the environment; skips where no lab was ever up on this machine."""
    directory = Path(os.environ.get("STRATA_OPENSTACK_ENVIRONMENT") or environment_directory())
    program = directory / "bin" / "python"
    if not program.exists():
        pytest.skip(f"no OpenStack in {directory}: the first `strata up` of a lab installs it")
    return program
