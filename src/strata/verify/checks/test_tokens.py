"""Tokens of the site's issuer at every service that takes them, the cluster's API server among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from strata.access.https import named_session
from strata.access.login import api_server
from strata.catalogue.cluster_login import CLIENT
from strata.catalogue.issuer import USERNAME_CLAIM, issuer_url
from strata.catalogue.needs import ApiPath, Audience, Hostname
from strata.catalogue.site_services import issuer, needed
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.verify.forgeries import FORGERIES, Signer, site_signer
from strata.verify.needs import TOKENS, TOKENS_FOR_CHECKS, needs
from strata.verify.waiting import settled

pytestmark = needs(TOKENS)
LEARN_SECONDS = 180.0
"""In which a service has the keys of an issuer that just started; the API server asks every 10 s."""


@dataclass(frozen=True)
class TokenEndpoint:
    """A URL that needs a token.

    Args:
        name: of the service.
        audience: that its tokens are for.
        http: reaches it.
        url: that only a token opens.
    """

    name: str
    audience: str
    http: requests.Session
    url: str

    def status(self, token: str | None) -> int:
        """HTTP status of a request with a token, as soon as a service answers."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}

        def status() -> int:
            return self.http.get(self.url, headers=headers, timeout=30).status_code

        return settled(status, lambda code: code < requests.codes.server_error)


@pytest.fixture(scope="module")
def endpoints(
    context: SiteContext, site: Site, http: requests.Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[TokenEndpoint]]:
    """Every service of the site that takes tokens."""
    external = site.platform.services.external_issuer
    # a service with pages at a name of their own accepts tokens at the API's
    words = (Hostname, ApiPath)
    hosts = {service.name: need.host(site) for word in words for service, need in needed(site, word)}
    targets = [
        TokenEndpoint(
            service.name,
            (external.audience if external else None) or need.name,
            http,
            f"https://{hosts[service.name]}{need.path}",
        )
        for service, need in needed(site, Audience)
        if need.path
    ]
    if site.cluster is None:
        yield targets
        return
    server = api_server(context)
    ca = Path(tmp_path_factory.mktemp("cluster"), "ca.crt")
    ca.write_text(server.ca)
    with named_session(ca, server.name) as session:
        # what every authenticated user may read
        yield [*targets, TokenEndpoint("Kubernetes", CLIENT, session, f"{server.url}/api")]


@pytest.fixture(scope="module")
def signer(context: SiteContext, site: Site, request: pytest.FixtureRequest) -> Signer:
    """Signs with the issuer's own key where Strata has it, so that a token is wrong in one thing only."""
    own = issuer(site)
    if own is None or not own.signing_key:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return Signer(issuer_url(site) or "", key, "forged")
    request.getfixturevalue("own_issuer")  # waits for it
    return site_signer(request.getfixturevalue("http"), own, context.secrets.get(own.signing_key))


@needs(TOKENS_FOR_CHECKS)
def test_services_accept_the_issuers_tokens(
    endpoints: list[TokenEndpoint], signer: Signer, site: Site, issuer_token: Callable[[str], str]
) -> None:
    """Every service that takes tokens, the Kubernetes API among them, accepts one of the site's issuer for it, and
    refuses requests without."""
    own = issuer(site)
    for endpoint in endpoints:
        claims = signer.claims(endpoint.audience, **{USERNAME_CLAIM: "check"})
        token = signer.sign(claims) if own and own.signing_key else issuer_token(endpoint.audience)
        status = settled(partial(endpoint.status, token), lambda code: code == 200, LEARN_SECONDS, pause=1)
        assert status == 200, endpoint.name
        # an anonymous user is one without rights
        assert endpoint.status(None) in (401, 403), endpoint.name


@pytest.mark.parametrize("forgery", FORGERIES)
def test_services_refuse_other_tokens(endpoints: list[TokenEndpoint], signer: Signer, forgery: str) -> None:
    """Every service that takes tokens, the Kubernetes API among them, returns 401 for a token that is expired,
    unsigned, tampered with, signed with another key, from another issuer or for another audience."""
    claims = {endpoint.name: signer.claims(endpoint.audience, **{USERNAME_CLAIM: "check"}) for endpoint in endpoints}
    statuses = {
        endpoint.name: endpoint.status(FORGERIES[forgery](signer, claims[endpoint.name])) for endpoint in endpoints
    }
    assert statuses == dict.fromkeys(statuses, 401)
