"""Tokens of the site's issuer: a service of its own, or the identity provider that external_issuer names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from strata.catalogue.needs.base import Need

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext
    from strata.models import Site
    from strata.models.finding import Finding
    from strata.models.yaml_events import KeyPath

HTTPS = 443


@dataclass(frozen=True)
class Issuer:
    """An issuer in the cluster.

    Args:
        url: the `iss` claim, where users reach it.
        jwks_url: where pods read its keys.
        client: id of the client that operators and checks use, by the client credentials grant.
        client_secret: name of the site's secret with that client's.
        pods: labels of the pods that serve `jwks_url`, for NetworkPolicies.
    """

    url: str
    jwks_url: str
    client: str
    client_secret: str
    pods: Mapping[str, str]


@dataclass(frozen=True)
class IssuerAccess:
    """What a service checks tokens against.

    Args:
        url: the `iss` claim.
        audience: what the `aud` claim must hold.
        jwks_url: where the keys are; None: as the discovery document says.
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
    """

    name: str

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs an issuer."""
        from strata.catalogue.discovery import services
        from strata.catalogue.site import issuer
        from strata.models.finding import Finding

        if site.platform.services.external_issuer is not None or issuer(site) is not None:
            return
        own = [service.key for service in services() if service.issuer is not None]
        names = " or ".join(["an external_issuer", *own])
        example = "".join(f"{name}: {{}}, or " for name in own)
        fix = f"below services: {example}external_issuer: {{url: https://…}}"
        reads: tuple[KeyPath, ...] = tuple(("platform", "services", name) for name in ("external_issuer", *own))
        yield Finding(key, f"needs {names}", fix, reads)

    def provide(self, context: ServiceContext[Any]) -> IssuerAccess:
        """URLs, audience and authority.

        Raises:
            UserError: the file with the external issuer's authority cannot be read.
        """
        from strata.catalogue.site import issuer

        external = context.site.platform.services.external_issuer
        if external is None:
            own = issuer(context.site)
            if own is None:
                raise LookupError(f"site {context.site.name} has no issuer; validation refuses that")
            return IssuerAccess(own.url, self.name, own.jwks_url, pods=own.pods)
        ca = None
        if external.ca_file is not None:
            ca = context.read("platform.services.external_issuer.ca_file", Path(external.ca_file))
        ports = {urlsplit(url).port or HTTPS for url in (external.url, external.jwks_url) if url is not None}
        audience = external.audience or self.name
        return IssuerAccess(external.url, audience, external.jwks_url, ca, tuple(sorted(ports)))


def audiences(site: Site) -> tuple[str, ...]:
    """The audiences of the site's services."""
    from strata.catalogue.site import needed

    return tuple(dict.fromkeys(need.name for _, need in needed(site, Audience)))
