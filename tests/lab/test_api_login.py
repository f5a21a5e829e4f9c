"""A member logs in to the API with the unmodified tapipy, by password and by personal access token."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from selenium.webdriver.common.keys import Keys

from strata.access.https import load_balancer_address, site_session, trusted_authorities
from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.issuer import Issuer
from strata.catalogue.published import api_url, published
from strata.site.context import SiteContext
from strata.verify.tokens import Login, NewUser
from strata_bench.browser import Browser
from strata_bench.tapis_client import documented_lines, run_tapipy
from strata_services.authenticator.service import SERVICE
from strata_services.ml_hub.service import SERVICE as ML_HUB

from .site_browser import site_browser

SCRIPT = """
import json, os
import jwt
from tapipy import errors
from tapipy.tapis import Tapis

def refused(username, password):
    try:
        Tapis(base_url=url, verify=ca, username=username, password=password).get_tokens()
    except (errors.BadRequestError, errors.UnauthorizedError) as error:
        return [type(error).__name__, str(error)]

url, ca, name = (os.environ[variable] for variable in ("STRATA_API_URL", "STRATA_CA_FILE", "STRATA_USER"))
output = {"wrong": refused(name, "wrong")}
if "FIRST_PASSWORD" in os.environ:
    output["temporary"] = refused(name, os.environ["FIRST_PASSWORD"])
if "STRATA_PASSWORD" in os.environ:
    t = Tapis(base_url=url, verify=ca, username=name, password=os.environ["STRATA_PASSWORD"])
    t.get_tokens()
    token = t.access_token.access_token
    output["user"], output["tenant"] = t.authenticator.get_userinfo().username, t.tenant_id
    key = t.tenants.get_tenant(tenant_id=t.tenant_id).public_key
    output["claims"] = jwt.decode(token, key, algorithms=["RS256"], options={"verify_aud": False})
    output["by token"] = Tapis(base_url=url, verify=ca, access_token=token).authenticator.get_userinfo().username
    output["token"] = token
forged = jwt.encode({"exp": 4102444800}, "k" * 32, algorithm="HS256")
faulty = Tapis(base_url=url, verify=ca, access_token=forged)
output["faulty"] = [tenant.tenant_id for tenant in faulty.tenants.list_tenants()]
print(json.dumps(output))
"""
SECONDS = 120.0
"""The longest wait for one page on a loaded machine."""


@dataclass(frozen=True)
class Member:
    """A member of the first tenant.

    Args:
        context: the site.
        name: of the user.
        first: password for the first login.
    """

    context: SiteContext
    name: str
    first: str = field(repr=False)

    def tapipy(self, script: str, **variables: str) -> str:
        """What a program prints on the member's computer."""
        url, ca = api_url(self.context.site), trusted_authorities(self.context)
        hosts = {url.removeprefix("https://"): load_balancer_address(self.context)}
        assert isinstance(ca, str)
        known = {"STRATA_API_URL": url, "STRATA_CA_FILE": ca, "STRATA_USER": self.name}
        done = run_tapipy(script, hosts, **known, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def login(self, **variables: str) -> dict[str, Any]:
        """Output of SCRIPT, which logs in."""
        read: dict[str, Any] = json.loads(self.tapipy(SCRIPT, **variables))
        return read


@pytest.fixture(scope="module")
def member(context: SiteContext, new_user: NewUser) -> Member:
    """Who has not logged in yet."""
    site = context.site
    if SERVICE.of(site) is None or not site.platform.tenants:
        pytest.skip(f"site {site.name} has no platform.services.authenticator, or no tenants")
    if not isinstance(trusted_authorities(context), str):
        pytest.skip(f"the names of site {site.name} have certificates of a public CA")
    return Member(context, *new_user(site.platform.tenants[0].name))


def test_a_member_logs_in_with_tapipy(
    context: SiteContext, member: Member, own_issuer: Issuer, http: requests.Session
) -> None:
    site = context.site
    before = member.login(FIRST_PASSWORD=member.first)
    assert before["faulty"] == [site.name], "a faulty token does not keep a client from its tenant"
    assert before["wrong"][0] == "UnauthorizedError"
    kind, said = before["temporary"]
    assert kind == "BadRequestError"
    assert f"https://{own_issuer.url.split('/')[2]}/" in said, "it names the page where the password is replaced"

    chosen = secrets.token_urlsafe(16)
    with site_session(context) as browser:
        Login(CLIENT, REDIRECT_URLS[0]).tokens(browser, own_issuer, member.name, member.first, chosen)
    login = member.login(STRATA_PASSWORD=chosen)
    assert (login["user"], login["by token"], login["tenant"]) == (member.name, member.name, site.name)
    expected = {
        "tapis/username": member.name,
        "tapis/tenant_id": site.name,
        "tapis/target_site_id": site.name,
        "tapis/account_type": "user",
        "tapis/delegation": False,
        "preferred_username": member.name,
        "groups": [f"/tenants/{site.platform.tenants[0].name}"],
    }
    assert expected.items() <= login["claims"].items()
    assert member.tapipy(documented_lines(), STRATA_PASSWORD=chosen) == f"{member.name} {site.name}\n"

    hub = next(service.url for service in published(site) if service.key == ML_HUB.key)
    models = f"{hub}v3/ml-hub/models"
    for headers in ({"X-Tapis-Token": login["token"]}, {"Authorization": f"Bearer {login['token']}"}):
        assert http.get(models, headers=headers, timeout=60).status_code == 200
    assert http.get(models, headers={"X-Tapis-Token": "faulty"}, timeout=60).status_code == 401


def create_token(window: Browser, pages: str, name: str) -> str:
    """What the page after the login shows; the browser has a session."""
    window.visit(pages)
    window.find("#name", SECONDS).send_keys(name, Keys.ENTER)
    return window.find("#token", SECONDS).text


def test_a_member_replaces_the_password_by_a_token_of_the_browser(
    context: SiteContext, own_issuer: Issuer, new_user: NewUser, member: Member
) -> None:
    assert member, "the site has what the test needs"
    site = context.site
    who = Member(context, *new_user(site.platform.tenants[0].name))
    chosen = secrets.token_urlsafe(16)
    with site_session(context) as http:
        Login(CLIENT, REDIRECT_URLS[0]).tokens(http, own_issuer, who.name, who.first, chosen)
    pages = next(service for service in published(site) if service.key == SERVICE.key and service.path == "/")
    with site_browser(context, pages.host) as window:
        window.visit(pages.url)
        window.find("#username", SECONDS).send_keys(who.name)
        window.find("#password", SECONDS).send_keys(chosen, Keys.ENTER)
        window.find("#name", SECONDS)
        first, second = (create_token(window, pages.url, name) for name in ("first", "second"))
        login = who.login(STRATA_PASSWORD=first)
        assert (login["user"], login["tenant"]) == (who.name, site.name)
        assert login["claims"]["groups"] == [f"/tenants/{site.platform.tenants[0].name}"]
        printed = who.tapipy(documented_lines(), STRATA_PASSWORD=second).splitlines()
        assert printed[0] == f"{who.name} {site.name}"
        assert [line.split()[1] for line in printed[1:]] == ["first", "second"]

        window.visit(pages.url)
        button = window.find('[aria-label="Revoke first"]', SECONDS)
        button.click()
        window.wait_until_left(button, SECONDS, "the list stays as it was")
        window.find('[aria-label="Revoke second"]', SECONDS)
        assert not [message for message in window.messages() if "favicon" not in message]
    refused = who.login(FIRST_PASSWORD=first)["temporary"]
    assert refused[0] == "UnauthorizedError"
    assert "revoked" in refused[1]
    assert who.login(STRATA_PASSWORD=second)["user"] == who.name, "the other token of the same login goes on"
