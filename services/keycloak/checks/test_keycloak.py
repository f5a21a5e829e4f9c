"""Keycloak, as clients and users see it: from outside, over TLS, at its host name."""

from __future__ import annotations

import secrets

import jwt
import pytest
import requests

from strata.access.https import site_session
from strata.catalogue.issuer import Issuer, tenant_group
from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.catalogue.site_needs import audiences
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.verify.pods import Kubectl, running_pods
from strata.verify.tokens import Login, LoginRefused, NewUser, client_token, request_token
from strata_services.keycloak.service import CLIENT_SECRET, DATABASE, SERVICE

LONGEST_TOKEN_SECONDS = 3600


@pytest.fixture(scope="module")
def issuer(site: Site, own_issuer: Issuer) -> Issuer:
    """Keycloak, once its realm is there."""
    if SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    return own_issuer


@pytest.fixture(scope="module")
def secret(context: SiteContext) -> str:
    """Of the client of operators and checks."""
    return context.secrets.get(CLIENT_SECRET)


def test_keycloak_publishes_what_its_tokens_are_checked_with(
    issuer: Issuer, site: Site, secret: str, http: requests.Session
) -> None:
    """Keycloak's discovery document leads to the key that signs its tokens; tokens are for the audience that was asked
    for and expire within 1 h."""
    document = http.get(f"{issuer.url}/.well-known/openid-configuration", timeout=30).json()
    assert document["issuer"] == issuer.url
    named = {
        "authorization_endpoint": issuer.public.authorize,
        "token_endpoint": issuer.public.token,
        "userinfo_endpoint": issuer.public.userinfo,
        "jwks_uri": issuer.public.jwks,
        "end_session_endpoint": issuer.public.logout,
    }
    assert {key: document[key] for key in named} == named
    keys = jwt.PyJWKSet.from_dict(http.get(document["jwks_uri"], timeout=30).json())
    for audience in audiences(site):
        token = client_token(http, issuer, secret, audience)
        key = keys[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(token, key, audience=audience, issuer=issuer.url)
        assert claims["aud"] == audience
        assert 0 < claims["exp"] - claims["iat"] <= LONGEST_TOKEN_SECONDS


def test_keycloak_refuses_a_wrong_secret(issuer: Issuer, http: requests.Session) -> None:
    """Keycloak issues no token for a wrong client secret."""
    assert request_token(http, issuer, "not-the-secret-of-this-client").status_code == 401


@pytest.mark.parametrize("client", ["admin-cli", "account", "verify"])
def test_passwords_are_for_its_own_pages(issuer: Issuer, http: requests.Session, client: str) -> None:
    """No client of Keycloak takes a user's password (direct access grants are off)."""
    form = {"grant_type": "password", "client_id": client, "username": "nobody", "password": "nothing"}
    answer = http.post(issuer.public.token, data=form, timeout=30)
    assert answer.status_code in (400, 401)
    assert answer.json()["error"] in ("unauthorized_client", "invalid_client")


@pytest.mark.parametrize("path", ["/admin/", "/admin/realms", "/realms/master", "/metrics", "/health", "/"])
def test_administration_is_not_reachable_from_outside(issuer: Issuer, http: requests.Session, path: str) -> None:
    """Keycloak's administrators' realm, console, Admin API and metrics are not reachable from outside."""
    host = issuer.url.partition("/realms/")[0]
    assert http.get(host + path, timeout=30, allow_redirects=False).status_code == 404


def test_logins_are_sent_to_registered_addresses_only(issuer: Issuer, http: requests.Session) -> None:
    """Keycloak shows an error, and redirects to nobody, for a login with an unregistered redirect URL."""
    query = {"response_type": "code", "client_id": "account", "redirect_uri": "https://evil.example.org/"}
    answer = http.get(issuer.public.authorize, params=query, timeout=30, allow_redirects=False)
    assert answer.status_code == 400


def test_a_user_logs_in_and_sets_a_password(
    context: SiteContext, site: Site, issuer: Issuer, new_user: NewUser
) -> None:
    """A new user logs in once with the password of the invitation and must set another; the account page's token names
    the user and the user's tenant."""
    login = Login("account-console", f"{issuer.url}/account/")
    own = secrets.token_hex(16)
    if not site.platform.tenants:
        pytest.skip(f"site {site.name} has no tenants")
    name, first = new_user(site.platform.tenants[0].name)
    with site_session(context) as browser:
        claims = _claims(login.tokens(browser, issuer, name, first, own)["access_token"])
    assert claims["preferred_username"] == name
    assert claims["groups"] == [tenant_group(site.platform.tenants[0].name)]
    with site_session(context) as browser:
        assert login.tokens(browser, issuer, name, own)["access_token"]
    # last: right after a refusal, Keycloak refuses the right password too
    with site_session(context) as browser, pytest.raises(LoginRefused):
        login.tokens(browser, issuer, name, first, own)


def _claims(token: str) -> dict[str, object]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


def test_keycloak_asks_its_database_over_tls(kubectl: Kubectl) -> None:
    """Keycloak checks its PostgreSQL's certificate by name; its passwords are in no argument or variable."""
    pods = running_pods(kubectl, SERVICE.name, SYSTEM_NAMESPACE)
    (server,) = (pod for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "server")
    (container,) = server["spec"]["containers"]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    assert f"/{DATABASE.name}?sslmode=verify-full&" in environment["KC_DB_URL"]
    assert not [name for name in environment if "PASSWORD" in name or "SECRET" in name]
