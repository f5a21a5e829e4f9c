"""The declaration of the authenticator: its values, and the client that Keycloak gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.needs.audience import audiences
from strata.catalogue.service import Service
from strata.catalogue.site import issuer
from strata.models import SiteError, load_site
from strata.plan import plan
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
        "accountUrl": "https://login.lab.strata.test/realms/strata/account",
        "jwksUrl": own.internal.jwks,
    }
    assert values["site"] == "lab"
    assert "authenticator" in values["services"]
    assert values["ingress"]["host"] == "api.lab.strata.test"
    assert values["networkPolicy"]["issuerPods"] == own.pods
    assert values["networkPolicy"]["egressPorts"] == []
    secret = {"name": "authenticator-secrets", "key": "authenticator_client_secret"}
    assert values["client"] == {"id": "authenticator", "existingSecret": secret}


def test_its_client_passes_on_passwords_for_all_services(lab: Path, context_of: Callable[..., Any]) -> None:
    data = json.loads(context_of(KEYCLOAK, lab).secret_data()["site.json"])
    (client,) = (one for one in data["clients"] if one["id"] == "authenticator")
    assert client["passwords"]
    assert not client["service_account"]
    assert client["redirect_urls"] == []
    assert {"authenticator", "ml-hub"} <= set(client["audiences"]) == set(audiences(load_site(lab)))
    assert [one["id"] for one in data["clients"] if one.get("passwords")] == ["authenticator"]


def test_an_external_issuer(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    def external(platform: dict[str, Any]) -> None:
        platform["services"] = {"authenticator": {}, "external_issuer": EXTERNAL}

    file = changed(lab, tmp_path, external)
    with pytest.raises(SiteError, match="authenticator_client_secret"):
        load_site(file)
    content = yaml.safe_load(file.read_text())
    secret = {"name": "authenticator_client_secret", "source": "environment"}
    file.write_text(yaml.safe_dump({**content, "secrets": [*content.get("secrets", []), secret]}))
    values = values_of(SERVICE, file)
    assert values["issuer"]["tokenUrl"] == "https://login.example.org/token"
    assert values["issuer"]["accountUrl"] == account_url(load_site(file)) == EXTERNAL["url"]
    assert values["networkPolicy"]["egressPorts"] == [443, 8443]


def test_the_name_of_the_api_is_the_site_s(lab: Path, tmp_path: Path) -> None:
    def named(name: str) -> Path:
        return changed(lab, tmp_path, lambda platform: platform.update({"api_hostname": name}))

    planned = plan(load_site(named("interface"))).platform
    assert planned is not None
    addresses = {release.name: release.address for release in planned.releases}
    assert addresses["authenticator"] == "https://interface.lab.strata.test/v3/oauth2"
    with pytest.raises(SiteError, match=r"api_hostname|ml_hub\.hostname") as raised:
        load_site(named("ml-hub"))
    assert "ml-hub" in str(raised.value)
