"""The real promtool and Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_bench.prometheus import Run, prometheus_binaries, runner


@pytest.fixture(scope="session")
def binaries() -> Path:
    """Directory with `prometheus` and `promtool`."""
    return prometheus_binaries()


@pytest.fixture(scope="session")
def promtool(binaries: Path) -> Run:
    """`promtool("check", "rules", file)` → how it ended."""
    return runner(binaries / "promtool")


@pytest.fixture(scope="session")
def amtool(binaries: Path) -> Run:
    """`amtool("check-config", file)` → how it ended."""
    return runner(binaries / "amtool")
