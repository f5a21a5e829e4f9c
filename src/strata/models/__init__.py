"""The site model, its loader, and what is derived from it."""

from strata.models.explain import Explanation, explain
from strata.models.find import find_site, site_names
from strata.models.loader import load_site
from strata.models.new import new_site
from strata.models.problems import Problem, SiteError
from strata.models.site import Site

__all__ = [
    "Explanation",
    "Problem",
    "Site",
    "SiteError",
    "explain",
    "find_site",
    "load_site",
    "new_site",
    "site_names",
]
