"""Services of the platform as the load balancer publishes them."""

from __future__ import annotations

from dataclasses import dataclass

from strata.inventory.ports import HEALTH_PATHS, NODE_PORTS
from strata.models import Site


@dataclass(frozen=True)
class PublishedService:
    """One name at the site's door.

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


def published_services(site: Site) -> tuple[PublishedService, ...]:
    """The services of the site that have a name of their own, in the order of their keys."""
    found = []
    for key, node_port in sorted(NODE_PORTS.items()):
        service = getattr(site.platform.services, key)
        if service is not None:
            found.append(PublishedService(key, service.hostname, node_port, HEALTH_PATHS.get(key, "")))
    return tuple(found)
