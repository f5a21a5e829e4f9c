"""One hub for all tests that need a running one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service
from strata_bench.services import PostgreSQL
from strata_services.jupyterhub.service import SERVICE

from .running_hub import (
    BIOLOGY,
    ENDPOINT_SECRETS,
    ENDPOINTS,
    FOLDERS,
    IMAGES,
    PROFILES,
    Hub,
    Pool,
    started,
)


@pytest.fixture(scope="session")
def _hubs(postgresql: PostgreSQL) -> Iterator[tuple[ExitStack, list[Hub]]]:
    """The hub, once it runs; it ends before its database."""
    assert postgresql
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture
def running_hub(
    _hubs: tuple[ExitStack, list[Hub]],
    postgresql: PostgreSQL,
    tmp_path_factory: pytest.TempPathFactory,
    values_of: Callable[[Service[Any], Path], dict[str, Any]],
    lab_with: Callable[..., Path],
) -> Hub:
    """The lab's hub with a second tenant and images that tenants may configure; the pool is down."""
    stack, hubs = _hubs
    if not hubs:
        site_file = lab_with(
            SERVICE,
            profiles=PROFILES,
            images=IMAGES,
            shared_export="tenants",
            datasets={"s3": ENDPOINTS, "nfs": FOLDERS},
        )
        content = yaml.safe_load(site_file.read_text())
        content["secrets"] = [{"name": name, "source": "environment"} for name in ENDPOINT_SECRETS]
        content["platform"]["tenants"].append(BIOLOGY)
        content["platform"]["services"]["dask_gateway"] = {}
        site_file.write_text(yaml.safe_dump(content))
        directory = tmp_path_factory.mktemp("hub")
        hub = started(values_of(SERVICE, site_file), directory, postgresql, Pool(directory))
        hubs.append(stack.enter_context(hub))
    return hubs[0]


@pytest.fixture
def hub(running_hub: Hub) -> Iterator[Hub]:
    """The hub, without configurations and datasets before and after."""
    running_hub.clear()
    yield running_hub
    running_hub.clear()
