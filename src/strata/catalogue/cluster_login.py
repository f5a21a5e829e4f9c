"""Logins of users at the cluster's API server, with tokens of the site's issuer."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from strata.catalogue.issuer import issuer_url
from strata.models.site import Site

CLIENT = "kubernetes"
"""Public client at the issuer that kubectl logs in with; the audience of its ID tokens."""
REDIRECT_URLS = ("http://localhost:8000", "http://localhost:18000")
"""Where kubelogin receives the browser after a login."""
PREFIX = "oidc:"
"""Of users and groups from tokens: none of them is one of Kubernetes' own (`system:…`)."""


@dataclass(frozen=True)
class ClusterLogin:
    """What the API server and kubectl know of the issuer.

    Args:
        url: the `iss` claim.
        site_ca: whether the site's CA signs the issuer's certificate.
        ca_file: PEM file, relative to the site file, of another CA; None: a public CA, or the site's.
    """

    url: str
    site_ca: bool
    ca_file: str | None

    @property
    def host(self) -> str:
        """Name of the issuer's host."""
        return urlsplit(self.url).hostname or ""


def cluster_login(site: Site) -> ClusterLogin | None:
    """How users of the site's issuer reach its cluster; None for a site without an issuer."""
    url = issuer_url(site)
    if url is None:
        return None
    external, certificate = site.platform.services.external_issuer, site.platform.ingress.certificate
    own = external is None
    file = certificate.ca_file if external is None else external.ca_file
    return ClusterLogin(url, own and certificate.source == "site", None if file is None else str(file))


def user_group(group: str) -> str:
    """A group of the issuer as RoleBindings name it."""
    return f"{PREFIX}{group}"
