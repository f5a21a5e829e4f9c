"""Which site a test may break."""

from __future__ import annotations

import pytest

from strata.site.context import SiteContext
from strata_lab.provider import LabProvider


def is_lab(context: SiteContext) -> bool:
    """Whether the site's machines are containers of this host."""
    return isinstance(context.provider, LabProvider)


def require_lab(context: SiteContext) -> None:
    """Skips the test on any other site."""
    if not is_lab(context):
        pytest.skip(f"site {context.site.name} is no lab")
