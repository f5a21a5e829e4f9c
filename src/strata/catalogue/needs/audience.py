"""Tokens of the site's issuer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from strata.catalogue.issuer import external_ca, issuer_findings, outside_ports, required_issuer
from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site


@dataclass(frozen=True)
class IssuerAccess:
    """What a service checks tokens against.

    Args:
        url: the `iss` claim.
        audience: what the `aud` claim must hold.
        jwks_url: where the keys are; None: as in the discovery document.
        ca: PEM of the authority that signed the issuer's certificate; None: the image's authorities.
        ports: TCP ports outside of the cluster that the service reads the keys on.
        pods: labels of the pods that serve `jwks_url`; empty for an external issuer.
    """

    url: str
    audience: str
    jwks_url: str | None = None
    ca: str | None = None
    ports: tuple[int, ...] = ()
    pods: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Audience(Need[IssuerAccess]):
    """Tokens of the site's issuer for one service.

    Args:
        name: the `aud` claim, unless an external issuer has another.
        path: below the service's Hostname, that GET opens with such a token only; `strata verify` tries others there.
    """

    name: str
    path: str = ""

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs an issuer."""
        return issuer_findings(site, key)

    def provide(self, context: ServiceContext[Any]) -> IssuerAccess:
        """URLs, audience and authority.

        Raises:
            UserError: the file with the external issuer's authority cannot be read.
        """
        external = context.site.platform.services.external_issuer
        if external is None:
            own = required_issuer(context.site)
            return IssuerAccess(own.url, self.name, own.internal.jwks, pods=own.pods)
        ports = outside_ports(external.url, external.jwks_url)
        audience = external.audience or self.name
        return IssuerAccess(external.url, audience, external.jwks_url, external_ca(context), ports)
