"""The token issuer, as clients see it: from outside, over TLS, at its host name."""

from __future__ import annotations

import jwt
import pytest
import requests

from strata.catalogue.needs.audience import audiences
from strata.catalogue.site import issuer as site_issuer
from strata.models import Site
from strata.site.secrets import SecretStore
from strata.verify.api import Api
from strata_services.token_issuer.service import CLIENT, CLIENT_SECRET, SERVICE

LONGEST_TOKEN_SECONDS = 3600


@pytest.fixture(scope="module")
def issuer(site: Site, http: requests.Session) -> Api:
    """The token issuer."""
    found = site_issuer(site) if SERVICE.of(site) else None
    if found is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    return Api(http, found.url)


def ask_for_token(issuer: Api, secret: str) -> requests.Response:
    """The client credentials grant."""
    data = {"grant_type": "client_credentials"}
    return issuer.http.post(f"{issuer.url}/token", data=data, auth=(CLIENT, secret), timeout=30)


def test_issuer_publishes_what_its_tokens_are_checked_with(issuer: Api, site: Site, secrets: SecretStore) -> None:
    """The token issuer's discovery document leads to the key that signs its tokens; tokens expire within 1 h."""
    response = ask_for_token(issuer, secrets.get(CLIENT_SECRET))
    assert response.status_code == 200, response.text
    token = str(response.json()["access_token"])
    document = issuer.get("/.well-known/openid-configuration").json()
    assert document["issuer"] == issuer.url
    assert document["token_endpoint"] == f"{issuer.url}/token"
    keys = jwt.PyJWKSet.from_dict(issuer.http.get(document["jwks_uri"], timeout=30).json())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, key, audience=[*audiences(site), CLIENT], issuer=issuer.url)
    assert claims["sub"] == CLIENT
    assert 0 < claims["exp"] - claims["iat"] <= LONGEST_TOKEN_SECONDS


def test_issuer_refuses_a_wrong_secret(issuer: Api) -> None:
    """The token issuer issues no token for a wrong client secret."""
    response = ask_for_token(issuer, "not-the-secret-of-this-client")
    assert response.status_code == 401
    assert response.json()["error"] == "invalid_client"
