"""What the tests of the scenario share; `cloud` and others come from strata.verify.plugin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import testinfra

from strata.models.find import SITE_FILE
from strata.site.context import SiteContext
from strata_lab.controller import container_name

if TYPE_CHECKING:
    from testinfra.host import Host


@pytest.fixture(scope="session")
def context() -> SiteContext:
    """The scenario's site; takes the place of the plugin's fixture."""
    return SiteContext.load(Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"]) / "inventory" / SITE_FILE)


@pytest.fixture(scope="session")
def controller(context: SiteContext) -> Host:
    """The machine that the roles were applied to."""
    return testinfra.get_host(f"podman://{container_name(context.site)}")
