"""Clients at the site's issuer: what a service declares and is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.catalogue import issuer as issuer_module
from strata.catalogue.discovery import services
from strata.catalogue.needs import ApiPath, Client, Database, Hostname
from strata.catalogue.needs.client import ClientAccess
from strata.catalogue.service import ServiceContext
from strata.catalogue.site_services import issuer, needed
from strata.errors import UserError
from strata.platform.releases import service_context
from strata.site_file.loader import load_site

from ..platform.test_values import SITES, state_of

NOTEBOOKS = Client("notebooks", ("ml-hub",), hostname=Hostname("notebooks"), redirect_paths=("/hub/oauth_callback",))
EXTERNAL = "https://login.example.org/realms/ml"
Publish = Callable[[dict[str, str]], None]


@pytest.fixture
def discovered(monkeypatch: pytest.MonkeyPatch) -> Publish:
    """`discovered(document)`: what the external issuer publishes."""

    def publish(document: dict[str, str]) -> None:
        def get(url: str, **_: object) -> requests.Response:
            assert url == f"{EXTERNAL}/.well-known/openid-configuration"
            answer = requests.Response()
            answer.status_code, answer._content = 200, json.dumps(document).encode()
            return answer

        issuer_module._discover.cache_clear()
        monkeypatch.setattr("requests.get", get)

    return publish


def context_with(client: Client, site_file: Path) -> ServiceContext[Any]:
    """Of a service that also needs a client."""
    state = state_of(site_file)
    accepting, *_ = [service for service, _ in needed(state.site, Database)]
    other = replace(accepting, needs=lambda settings: (*accepting.needs(settings), client))
    return service_context(other, state)


def external(tmp_path: Path, **settings: object) -> Path:
    """The lab with an issuer outside of it, without services that are clients."""
    content = yaml.safe_load(SITES["lab"].read_text())
    own = {service.key for service in services() if service.issuer is not None}
    own |= {service.key for service, _ in needed(load_site(SITES["lab"]), Client)}
    content["platform"]["services"] = {k: v for k, v in content["platform"]["services"].items() if k not in own}
    content["platform"]["services"]["external_issuer"] = {"url": EXTERNAL, **settings}
    for name in SITES["lab"].parent.iterdir():
        (tmp_path / name.name).write_text(name.read_text() if name.is_file() else "")
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "site.yaml"


def test_a_client_of_the_site_s_issuer() -> None:
    context = context_with(NOTEBOOKS, SITES["lab"])
    own = issuer(context.site)
    assert own is not None
    access = context.provide(NOTEBOOKS)
    assert access == ClientAccess(
        id="notebooks",
        secret=context.secret_reference("notebooks_client_secret"),
        issuer=own.url,
        public=own.public,
        internal=own.internal,
        pods=own.pods,
        namespace=own.namespace,
    )
    assert access.public.authorize.startswith(own.url)
    assert access.internal.token.startswith("http://")
    assert context.secret_data()[NOTEBOOKS.secret] == context.secrets.get(NOTEBOOKS.secret)


def test_logins_go_back_below_the_service_s_name_only() -> None:
    site = load_site(SITES["lab"])
    assert NOTEBOOKS.redirect_urls(site) == ("https://notebooks.lab.strata.test/hub/oauth_callback",)
    assert NOTEBOOKS.logout_urls(site) == ("https://notebooks.lab.strata.test/",)
    shared = Client("pods", hostname=ApiPath(paths=("/v3/pods",)), redirect_paths=("/v3/pods/callback",))
    assert shared.redirect_urls(site) == ("https://api.lab.strata.test/v3/pods/callback",)
    assert not NOTEBOOKS.has_service_account
    machine = Client("collector", ("ml-hub",))
    assert machine.has_service_account
    assert machine.redirect_urls(site) == machine.logout_urls(site) == ()
    with pytest.raises(ValueError, match="redirect_paths"):
        Client("notebooks", redirect_paths=("/callback",))


def test_an_external_issuer_s_urls_are_discovered(tmp_path: Path, discovered: Publish) -> None:
    document = {
        "issuer": EXTERNAL,
        "authorization_endpoint": f"{EXTERNAL}/auth",
        "token_endpoint": "https://login.example.org:8443/token",
        "userinfo_endpoint": f"{EXTERNAL}/userinfo",
        "jwks_uri": f"{EXTERNAL}/certs",
        "revocation_endpoint": "https://login.example.org:9443/revoke",
    }
    discovered(document)
    site_file = external(tmp_path, endpoints={"userinfo": "https://other.example.org/me"})
    access = context_with(NOTEBOOKS, site_file).provide(NOTEBOOKS)
    assert access.internal == access.public
    assert access.public.authorize == f"{EXTERNAL}/auth"
    assert access.public.userinfo == "https://other.example.org/me"
    assert access.public.revoke == "https://login.example.org:9443/revoke"
    assert access.ports == (443, 8443, 9443)
    assert not access.pods


def test_an_external_issuer_that_names_too_little_is_reported(tmp_path: Path, discovered: Publish) -> None:
    discovered({"issuer": EXTERNAL, "jwks_uri": EXTERNAL})
    context = context_with(NOTEBOOKS, external(tmp_path))
    with pytest.raises(UserError, match="names no authorize, token, userinfo endpoint") as refused:
        context.provide(NOTEBOOKS)
    assert "platform.services.external_issuer.endpoints" in str(refused.value.fix)


def test_settings_alone_do_without_discovery(tmp_path: Path) -> None:
    urls = {key: f"{EXTERNAL}/{key}" for key in ("authorize", "token", "userinfo", "logout")}
    site_file = external(tmp_path, endpoints=urls, jwks_url=f"{EXTERNAL}/certs")
    endpoints = context_with(NOTEBOOKS, site_file).provide(NOTEBOOKS).public
    assert (endpoints.logout, endpoints.revoke) == (urls["logout"], ""), "an optional one is not looked for"


def test_its_secret_comes_from_the_operator(tmp_path: Path) -> None:
    site = load_site(external(tmp_path))
    (finding,) = NOTEBOOKS.findings(site, ("platform", "services", "notebooks"))
    assert "notebooks_client_secret" in finding.fix
