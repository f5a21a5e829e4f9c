"""Names at the site's load balancer that a service gives out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need, role_findings
from strata.catalogue.service import ServiceContext
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site


@dataclass(frozen=True)
class WildcardHostname(Need[str]):
    """All names https://<any>.<label>.<domain>, over TLS, by Ingresses that the service makes.

    Args:
        label: the name between.
    """

    label: str

    def domain(self, site: Site) -> str:
        """What the names end with."""
        return f"{self.label}.{site.domain}"

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs a load balancer."""
        return role_findings(site, key, "load_balancer", "its names lead there")

    def provide(self, context: ServiceContext[Any]) -> str:
        """What the names end with."""
        return self.domain(context.site)
