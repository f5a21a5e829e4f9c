"""Services of the platform as users reach them."""

from __future__ import annotations

from strata.catalogue.needs.hostname import PublishedService
from strata.catalogue.needs.hostname import published as published_services

__all__ = ["PublishedService", "published_services"]
