"""The declaration of the authenticator: its values, and the client that Keycloak gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.published import published
from strata.catalogue.service import Service
from strata.catalogue.site_needs import audiences
from strata.catalogue.site_services import issuer
from strata.plan import plan
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.authenticator.service import SERVICE, account_url
from strata_services.keycloak.service import SERVICE as KEYCLOAK

EXTERNAL = {
    "url": "https://login.example.org/realms/ml",
    "jwks_url": "https://keys.example.org:8443/jwks",
    "endpoints": {name: f"https://login.example.org/{name}" for name in ("authorize", "token", "userinfo", "logout")},
}
ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]


def changed(lab: Path, directory: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The lab's site with another platform."""
    content = yaml.safe_load(lab.read_text())
    change(content["platform"])
    file = directory / "site.yaml"
    file.write_text(yaml.safe_dump(content))
    (directory / "catalogue.json").write_text("[]")
    return file


def test_the_lab_s_values(lab: Path, values_of: ValuesOf) -> None:
    values, own = values_of(SERVICE, lab), issuer(load_site(lab))
    assert own is not None
    assert values["issuer"] == {
        "url": own.url,
        "audience": "authenticator",
        "authorizeUrl": own.public.authorize,
        "tokenUrl": own.internal.token,
        "revokeUrl": own.internal.revoke,
        "accountUrl": "https://login.lab.strata.test/realms/strata/account",
        "jwksUrl": own.internal.jwks,
    }
    assert values["site"] == "lab"
    assert "authenticator" in values["services"]
    assert values["ingress"]["host"] == "api.lab.strata.test"
    assert values["networkPolicy"]["issuerPods"] == own.pods
    assert values["networkPolicy"]["egressPorts"] == []

    def secret(key: str) -> dict[str, dict[str, str]]:
        return {"existingSecret": {"name": "authenticator-secrets", "key": key}}

    assert values["passwordClient"] == {"id": "authenticator", **secret("authenticator_client_secret")}
    assert values["login"] == {
        "client": {"id": "authenticator-login", **secret("authenticator_login_client_secret")},
        "sessionKey": secret("session-key"),
    }
    assert values["database"].items() >= {"name": "authenticator", **secret("authenticator_database_password")}.items()
    assert values["web"] == {
        "host": "tokens.lab.strata.test",
        "className": "traefik",
        "logoutUrl": own.public.logout,
        "frontPageUrl": "https://lab.strata.test/",
    }
    assert values["personalAccessTokenDays"] == 365


def test_its_clients_get_tokens_of_users_for_all_services(lab: Path, context_of: Callable[..., Any]) -> None:
    clients = {
        client["id"]: client for client in json.loads(context_of(KEYCLOAK, lab).secret_data()["site.json"])["clients"]
    }
    passwords, login = clients["authenticator"], clients["authenticator-login"]
    for client in (passwords, login):
        assert not client["service_account"]
        assert {"authenticator", "ml-hub"} <= set(client["audiences"]) == set(audiences(load_site(lab)))
    assert (passwords["redirect_urls"], passwords["logout_urls"]) == ([], [])
    assert login["redirect_urls"] == ["https://tokens.lab.strata.test/.login/callback"]
    assert login["logout_urls"] == ["https://tokens.lab.strata.test/.logout"]
    assert [name for name, client in clients.items() if client.get("passwords")] == ["authenticator"]
    assert [name for name, client in clients.items() if client.get("offline")] == ["authenticator-login"]


def test_an_external_issuer(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    def external(platform: dict[str, Any]) -> None:
        platform["services"] = {"authenticator": {}, "external_issuer": EXTERNAL}

    file = changed(lab, tmp_path, external)
    with pytest.raises(SiteError, match="authenticator_client_secret"):
        load_site(file)
    content = yaml.safe_load(file.read_text())
    names = ("authenticator_client_secret", "authenticator_login_client_secret")
    secrets = [{"name": name, "source": "environment"} for name in names]
    file.write_text(yaml.safe_dump({**content, "secrets": [*content.get("secrets", []), *secrets]}))
    values = values_of(SERVICE, file)
    assert "revokeUrl" not in values["issuer"], "the site file names none"
    content["platform"]["services"]["external_issuer"]["endpoints"]["revoke"] = "https://ends.example.org:9443/revoke"
    file.write_text(yaml.safe_dump({**content, "secrets": [*content.get("secrets", []), *secrets]}))
    values = values_of(SERVICE, file)
    assert values["issuer"]["revokeUrl"] == "https://ends.example.org:9443/revoke"
    assert values["issuer"]["tokenUrl"] == "https://login.example.org/token"
    assert values["issuer"]["accountUrl"] == account_url(load_site(file)) == EXTERNAL["url"]
    assert values["networkPolicy"]["egressPorts"] == [443, 8443, 9443]


def test_the_name_of_the_api_is_the_site_s(lab: Path, tmp_path: Path) -> None:
    def named(name: str) -> Path:
        return changed(lab, tmp_path, lambda platform: platform.update({"api_hostname": name}))

    urls = [service.url for service in published(load_site(named("interface"))) if service.key == SERVICE.key]
    assert urls == ["https://tokens.lab.strata.test/", "https://interface.lab.strata.test/v3/oauth2"]
    planned = plan(load_site(named("interface"))).platform
    assert planned is not None
    addresses = {release.name: release.address for release in planned.releases}
    assert addresses["authenticator"] == urls[0]
    with pytest.raises(SiteError, match=r"api_hostname|ml_hub\.hostname") as raised:
        load_site(named("ml-hub"))
    assert "ml-hub" in str(raised.value)
