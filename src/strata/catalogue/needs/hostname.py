"""A name at the site's load balancer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need, pods_peer, role_findings
from strata.catalogue.service import ServiceContext
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site

INGRESS_CLASS = INGRESS_NAMESPACE = "traefik"
CERTIFICATE_RESOLVER = "acme"
"""Of the ingress controller, at sites whose certificates an ACME server issues."""
INGRESS_CONTROLLER = pods_peer(INGRESS_NAMESPACE, {"app.kubernetes.io/name": "traefik"})
"""Peer of NetworkPolicies: the ingress controller's pods."""
API_HOSTNAME: KeyPath = ("platform", "api_hostname")
"""In the site file, of the name that services with an ApiPath share."""


@dataclass(frozen=True)
class Hostname(Need[dict[str, str]]):
    """A name below the site's domain, over TLS, by an Ingress of the service's chart.

    Args:
        label: the name without the domain; empty: the domain itself.
        health_path: answers 2xx while the service is healthy; empty where there is none.
        title: of the service on the site's front page, in users' words; empty: the page does not show it.
        summary: one sentence below the title.
        start_path: where users begin.
        command: what users type where the service has no web page; `{url}` is its address.
    """

    label: str
    health_path: str = ""
    title: str = ""
    summary: str = ""
    start_path: str = "/"
    command: str = ""

    def label_at(self, site: Site) -> str:  # noqa: ARG002  # for ApiPath
        """The name without the domain at one site."""
        return self.label

    def host(self, site: Site) -> str:
        """The whole name."""
        label = self.label_at(site)
        return f"{label}.{site.domain}" if label else site.domain

    @property
    def path(self) -> str:
        """Below which everything is the service's own."""
        return "/"

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs a load balancer."""
        return role_findings(site, key, "load_balancer", "reachable through it")

    def provide(self, context: ServiceContext[Any]) -> dict[str, Any]:
        """host and className of the Ingress, as the charts take them."""
        return {"host": self.host(context.site), "className": INGRESS_CLASS}
