"""Which site a test may break, and where it keeps what."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.models.site import Site
from strata.site.context import SiteContext
from strata_lab.provider import LabProvider
from strata_services.jupyterhub.needs import homes
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB


def is_lab(context: SiteContext) -> bool:
    """Whether the site's machines are containers of this host."""
    return isinstance(context.provider, LabProvider)


def require_lab(context: SiteContext) -> None:
    """Skips the test on any other site."""
    if not is_lab(context):
        pytest.skip(f"site {context.site.name} is not a lab")


def homes_volume(site: Site) -> Path:
    """Where the NFS server has the users' homes."""
    notebooks = JUPYTERHUB.of(site)
    assert notebooks is not None
    return homes(notebooks).path(site)
