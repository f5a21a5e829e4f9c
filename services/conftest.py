"""What only the checks of the services have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testinfra.host import Host


@pytest.fixture(scope="session")
def host(site_host: Callable[[str], Host]) -> Callable[[str], Host]:
    """`host("services-1")`; here and not in the plugin, where testinfra's own fixture of that name would win."""
    return site_host
