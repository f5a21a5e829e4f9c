"""A site's picture: who runs where, who holds which card, what is not as wanted."""

from strata.report.build import build_report
from strata.report.model import SiteReport

__all__ = ["SiteReport", "build_report"]
