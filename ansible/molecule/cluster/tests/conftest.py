"""What the tests of the scenario share; `kubectl`, `images` and others come from strata.verify.plugin."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata.site.context import SiteContext
from strata.site_file.inventories import SITE_FILE
from strata_bench.scenario import Scenario

if TYPE_CHECKING:
    from testinfra.host import Host


@pytest.fixture(scope="session")
def context() -> SiteContext:
    """The scenario's site; takes the place of the plugin's fixture."""
    return SiteContext.load(Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"]) / "inventory" / SITE_FILE)


@pytest.fixture(scope="session")
def machine(context: SiteContext) -> Callable[[str], Host]:
    """`machine("control-1")` → a machine that the roles were applied to."""
    return Scenario(context).host
