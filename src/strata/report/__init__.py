"""A site's report: placement, allocation of accelerators, health."""

from strata.report.build import build_report
from strata.report.model import SiteReport

__all__ = ["SiteReport", "build_report"]
