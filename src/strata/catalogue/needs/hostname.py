"""A name at the site's load balancer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need, role_findings

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext
    from strata.models import Site
    from strata.models.finding import Finding
    from strata.models.yaml_events import KeyPath


@dataclass(frozen=True)
class Hostname(Need[str]):
    """A name below the site's domain, over TLS.

    Args:
        label: the name without the domain.
        node_port: on every node, which the load balancer forwards to.
        health_path: answers 2xx on a healthy backend; empty where a connection must do.
    """

    label: str
    node_port: int
    health_path: str = ""

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs a load balancer."""
        return role_findings(site, key, "load_balancer", "reachable through it")

    def provide(self, context: ServiceContext[Any]) -> str:
        """The whole name."""
        return f"{self.label}.{context.site.domain}"


@dataclass(frozen=True)
class PublishedService:
    """One name at the site's load balancer.

    Args:
        key: in `platform.services`.
        hostname: below the site's domain.
        node_port: TCP port on every node of the cluster.
        health_path: answers 2xx on a healthy backend; empty where a connection must do.
    """

    key: str
    hostname: str
    node_port: int
    health_path: str


def published(site: Site) -> tuple[PublishedService, ...]:
    """The services of the site that have a name of their own, in the order of their keys."""
    from strata.catalogue.site import needed

    return tuple(
        PublishedService(service.key, need.label, need.node_port, need.health_path)
        for service, need in needed(site, Hostname)
    )
