"""One pool for all tests that need a real one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from strata.catalogue.service import Service
from strata_services.htcondor.service import SERVICE
from strata_services.htcondor.values import OWN_IMAGE

from .real_pool import ANOTHER, RealPool, running

QUEUES = ["interactive", "dask", "batch"]


@pytest.fixture
def own_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The image's Python package strata_condor can be imported."""
    monkeypatch.syspath_prepend(str(SERVICE.folder / "src"))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "strata_condor"]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def _pools() -> Iterator[tuple[ExitStack, list[RealPool]]]:
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture
def real_pool(
    _pools: tuple[ExitStack, list[RealPool]],
    objects_of: Callable[[Service[Any], Path], list[dict[str, Any]]],
    lab_with: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> RealPool:
    """The lab's pool, with queues, one execution point of the tenant research that stays, and a tenant ml-team."""
    stack, pools = _pools
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    if not pools:
        images = [{"name": ANOTHER, "image": f"registry.example.org/debian@sha256:{64 * '0'}"}]
        options = {"queues": QUEUES, "images": images, "default_image": OWN_IMAGE}
        site_file = lab_with(SERVICE, idle_seconds=3600, **options)
        site_file.write_text(site_file.read_text().replace("name: teaching", "name: ml-team"))
        objects = objects_of(SERVICE, site_file)
        pools.append(stack.enter_context(running(objects, tmp_path_factory.mktemp("pool"))))
    return pools[0]
