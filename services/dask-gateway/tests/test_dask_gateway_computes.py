"""A client in the notebook's image computes on a cluster, through the gateway's proxy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .real_cluster import WORKERS, sums


@pytest.mark.nightly  # where no lab has built the notebook's image, it builds it
@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
def test_a_client_computes_while_workers_come(tmp_path: Path) -> None:
    """Workers that start end connections to the scheduler, and the client's stays (strata_tls)."""
    assert sums(tmp_path) == [4950 * workers for workers in range(1, WORKERS + 1)]
