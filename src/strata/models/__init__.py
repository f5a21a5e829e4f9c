"""The site model and its loader."""

from strata.models.loader import load_site
from strata.models.site import Site

__all__ = ["Site", "load_site"]
