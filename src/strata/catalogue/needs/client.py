"""A client at the site's issuer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.issuer import IssuerEndpoints, endpoints, issuer_findings
from strata.catalogue.need import Need, SecretReference
from strata.catalogue.needs.hostname import Hostname
from strata.catalogue.service import ServiceContext
from strata.catalogue.site_services import issuers
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site


@dataclass(frozen=True, kw_only=True)
class ClientAccess(IssuerEndpoints):
    """How a client reaches the site's issuer.

    Args:
        id: the client id.
        secret: where its secret is.
    """

    id: str
    secret: SecretReference


@dataclass(frozen=True)
class Client(Need[ClientAccess]):
    """A confidential client of the site's issuer; the operator registers it with an external issuer and provides its
    secret.

    With `redirect_paths` people log in with it (authorization code with PKCE); their tokens have the claims `sub`,
    `preferred_username`, `email` and `groups`. Without, or with `service_account`, the service gets tokens of its own
    (client credentials).

    Args:
        name: the client id.
        audiences: that its tokens are for.
        hostname: of the service, where people log in.
        redirect_paths: below that name, where the issuer sends browsers after a login.
        logout_paths: below that name, where the issuer sends browsers after a logout.
        service_account: whether it gets tokens of its own beside logins.
        passwords: whether it passes on people's names and passwords (resource owner password credentials); the tokens
            are theirs, and it gets none of its own.
        all_audiences: whether its tokens are for all services of the site, in place of `audiences`.
        offline: whether it may ask for refresh tokens that outlive the login (scope `offline_access`).
    """

    name: str
    audiences: tuple[str, ...] = ()
    hostname: Hostname | None = None
    redirect_paths: tuple[str, ...] = ()
    logout_paths: tuple[str, ...] = ("/",)
    service_account: bool = False
    passwords: bool = False
    all_audiences: bool = False
    offline: bool = False

    def __post_init__(self) -> None:
        if self.redirect_paths and self.hostname is None:
            raise ValueError(f"client {self.name}: redirect_paths are below a hostname, and there is none")

    @property
    def secret(self) -> str:
        """Name of the site's secret with the client's."""
        return f"{self.name.replace('-', '_')}_client_secret"

    @property
    def has_service_account(self) -> bool:
        """Whether it may use the client credentials grant."""
        return self.service_account or not (self.redirect_paths or self.passwords)

    def redirect_urls(self, site: Site) -> tuple[str, ...]:
        """Where browsers may be sent after a login."""
        return self._urls(site, self.redirect_paths)

    def logout_urls(self, site: Site) -> tuple[str, ...]:
        """Where browsers may be sent after a logout."""
        return self._urls(site, self.logout_paths if self.redirect_paths else ())

    def _urls(self, site: Site, paths: tuple[str, ...]) -> tuple[str, ...]:
        return () if self.hostname is None else tuple(f"https://{self.hostname.host(site)}{path}" for path in paths)

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """The site needs an issuer; with an external one, the client's secret comes from the operator."""
        yield from issuer_findings(site, key)
        external = site.platform.services.external_issuer is not None
        if issuers(site):
            return  # an own one; both together is reported for external_issuer
        if external and self.secret not in {s.name for s in site.secrets if s.source != "generated"}:
            yield Finding(
                key,
                f"the secret of its client {self.name} at the external issuer must be provided",
                f"secrets: [{{name: {self.secret}, source: file, path: …}}]",
                (("secrets",),),
            )

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:
        """The client's secret."""
        return {self.secret: context.secrets.get(self.secret)}

    def provide(self, context: ServiceContext[Any]) -> ClientAccess:
        """Id, secret and URLs.

        Raises:
            UserError: the external issuer's URLs are neither set nor to be discovered.
        """
        secret = context.secret_reference(self.secret)
        return ClientAccess(id=self.name, secret=secret, **vars(endpoints(context)))
