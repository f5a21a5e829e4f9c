"""The authenticator, as clients see it: from outside, over TLS, at the API's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from strata.catalogue.published import api_url
from strata.catalogue.site_services import issuer
from strata.models.site import Site
from strata.verify.api import Api, envelope
from strata.verify.pods import Kubectl
from strata.verify.waiting import settled
from strata_services.authenticator.service import AUDIENCE, SERVICE
from strata_services.authenticator.settings import Authenticator

FAULTY = "faulty"
LEARN_SECONDS = 120.0
"""In which it has the keys of an issuer that just started."""


@pytest.fixture(scope="module")
def settings(site: Site) -> Authenticator:
    """The authenticator's entry in site.yaml."""
    section = SERVICE.of(site)
    if section is None:
        pytest.skip(f"site {site.name} has no platform.services.authenticator")
    return section


@pytest.fixture(scope="module")
def api(site: Site, settings: Authenticator, http: requests.Session) -> Api:
    """The API."""
    assert settings
    return Api(http, api_url(site))


def test_site_and_tenant_are_this_site(api: Api, site: Site) -> None:
    """The API lists this site and its tenant, with the issuer's public key, whatever token comes with the request."""

    def tenant() -> Any:
        (result,) = envelope(api.get("/v3/tenants", FAULTY))["result"]
        return result

    entry = settled(tenant, lambda result: bool(result["public_key"]), LEARN_SECONDS, pause=1)
    assert (entry["tenant_id"], entry["site_id"], entry["base_url"]) == (site.name, site.name, api.url)
    load_pem_public_key(entry["public_key"].encode())
    (own,) = envelope(api.get("/v3/sites", FAULTY))["result"]
    assert (own["site_id"], own["base_url"]) == (site.name, api.url)


def test_a_wrong_password_is_refused(api: Api) -> None:
    """A login with a wrong password is refused, in words."""
    body = {"grant_type": "password", "username": "no-such-user", "password": "wrong"}

    def answer() -> requests.Response:
        return api.http.post(f"{api.url}/v3/oauth2/tokens", json=body, timeout=30)

    response = settled(
        answer, lambda response: response.status_code < requests.codes.server_error, LEARN_SECONDS, pause=1
    )
    # 400: an external issuer without logins by password
    assert response.status_code in (400, 401), response.text
    assert response.json()["message"]


def test_a_token_names_its_holder(api: Api, issuer_token: Callable[[str], str]) -> None:
    """The API names the holder of a token of the site's issuer."""
    token = issuer_token(AUDIENCE.name)
    assert envelope(api.get("/v3/oauth2/userinfo", token))["result"]["username"]


def test_the_pages_lead_to_the_login(site: Site, settings: Authenticator, http: requests.Session) -> None:
    """The pages for personal access tokens lead to the issuer, which lets their client ask for lasting logins."""
    answer = http.get(f"https://{settings.hostname}.{site.domain}/", allow_redirects=False, timeout=30)
    assert answer.status_code == requests.codes.see_other, answer.text
    own = issuer(site)
    if own is None:
        pytest.skip(f"site {site.name} has an external issuer, which may redirect its visitors")
    target = answer.headers["Location"]
    assert target.startswith(f"{own.public.authorize}?")
    page = http.get(target.replace("scope=", "scope=offline_access+"), allow_redirects=False, timeout=30)
    assert page.status_code == requests.codes.ok, f"{page.status_code}: {page.headers.get('Location')}"


def test_as_many_pods_as_in_the_site_file(kubectl: Kubectl, settings: Authenticator, site: Site) -> None:
    """The authenticator has as many ready pods as site.yaml sets."""
    options = ("--namespace", SERVICE.namespace_of(site), "--output", "json")

    def ready() -> int:
        deployment = json.loads(kubectl("get", "deployment", SERVICE.name, *options))
        return int(deployment["status"].get("readyReplicas", 0))

    assert settled(ready, lambda count: count == settings.replicas) == settings.replicas
