"""Services of the platform as users reach them."""

from __future__ import annotations

from dataclasses import dataclass

from strata.inventory.ports import HEALTH_PATHS
from strata.models import Site


@dataclass(frozen=True)
class PublishedService:
    """A service with a name of its own.

    Args:
        key: in `platform.services`.
        hostname: below the site's domain.
        health_path: answers 2xx while the service is healthy; empty where there is none.
    """

    key: str
    hostname: str
    health_path: str


def published_services(site: Site) -> tuple[PublishedService, ...]:
    """The services of the site that have a name of their own, in the order of their keys."""
    return tuple(
        PublishedService(key, service.hostname, HEALTH_PATHS.get(key, ""))
        for key, service in sorted(site.platform.services.installed.items())
    )
