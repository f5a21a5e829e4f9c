"""A name at the site's load balancer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need, pods_peer, role_findings

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext
    from strata.models import Site
    from strata.models.finding import Finding
    from strata.models.yaml_events import KeyPath


INGRESS_CLASS = INGRESS_NAMESPACE = "traefik"
INGRESS_CONTROLLER = pods_peer(INGRESS_NAMESPACE, {"app.kubernetes.io/name": "traefik"})
"""Peer of NetworkPolicies: the ingress controller's pods."""


@dataclass(frozen=True)
class Hostname(Need[dict[str, str]]):
    """A name below the site's domain, over TLS, by an Ingress of the service's chart.

    Args:
        label: the name without the domain.
        health_path: answers 2xx while the service is healthy; empty where there is none.
    """

    label: str
    health_path: str = ""

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs a load balancer."""
        return role_findings(site, key, "load_balancer", "reachable through it")

    def provide(self, context: ServiceContext[Any]) -> dict[str, str]:
        """host and className of the Ingress, as the charts take them."""
        return {"host": f"{self.label}.{context.site.domain}", "className": INGRESS_CLASS}


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


def published(site: Site) -> tuple[PublishedService, ...]:
    """The services of the site that have a name of their own, in the order of their keys."""
    from strata.catalogue.site import needed

    return tuple(
        PublishedService(service.key, need.label, need.health_path) for service, need in needed(site, Hostname)
    )
