"""A site for whatever needs one."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.site.context import SiteContext
from strata.site_file.inventories import find_site


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    """The lab with a state directory of its own; the plugin's fixture of this name is the running site."""
    loaded = SiteContext.load(find_site("lab"))
    loaded.paths.create()
    return loaded
