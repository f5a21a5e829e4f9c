"""The declaration of the model hub: its values, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.catalogue.needs import Client
from strata.catalogue.service import Service
from strata.catalogue.site_needs import token_audiences
from strata.catalogue.site_services import issuer, needed
from strata.errors import UserError
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.ml_hub.service import MAXIMUM_CHARACTERS, SERVICE

EXTERNAL_URL = "https://login.example.org:8443/realms/ml"
EXTERNAL = {
    "url": EXTERNAL_URL,
    "jwks_url": "https://keys.example.org/jwks?p=ml",
    "endpoints": {name: f"{EXTERNAL_URL}/{name}" for name in ("authorize", "token", "userinfo", "logout")},
}
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]


def with_external_issuer(lab: Path, directory: Path, **keys: str) -> Path:
    """The lab's site with an issuer outside of it."""
    content = yaml.safe_load(lab.read_text())
    services = content["platform"]["services"]
    content["platform"]["services"] = {"ml_hub": services["ml_hub"], "external_issuer": {**EXTERNAL, **keys}}
    content["secrets"] = [{"name": "ml_hub_login_client_secret", "source": "environment"}]
    file = directory / "site.yaml"
    file.write_text(yaml.safe_dump(content))
    (directory / "catalogue.json").write_text("[]")
    (directory / "issuer.pem").write_text(PEM)
    return file


def test_the_lab_s_values(lab: Path, values_of: ValuesOf) -> None:
    values = values_of(SERVICE, lab)
    assert values["database"]["host"] == "10.0.0.10"
    assert values["database"]["existingSecret"] == {"name": "ml-hub-secrets", "key": "ml_hub_database_password"}
    own = issuer(load_site(lab))
    assert own is not None
    assert values["issuer"]["url"] == own.url
    assert values["issuer"]["audience"] == "ml-hub"
    assert (values["ingress"]["host"], values["ingress"]["api"]["host"]) == (
        "ml-hub.lab.strata.test",
        "api.lab.strata.test",
    )
    assert values["web"] == {
        "logoutUrl": own.public.logout,
        "frontPageUrl": "https://lab.strata.test/",
        "apiLoginUrl": "https://api.lab.strata.test/v3/oauth2/tokens",
        "tokenPageUrl": "https://tokens.lab.strata.test/",
    }
    site = load_site(lab)
    (client,) = (need for service, need in needed(site, Client) if service is SERVICE)
    assert client.redirect_urls(site) == ("https://ml-hub.lab.strata.test/.login/callback",)
    assert client.logout_urls(site) == ("https://ml-hub.lab.strata.test/.logout",)


def test_an_external_issuer(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    file = with_external_issuer(lab, tmp_path, audience="https://ml.example.org/", ca_file="issuer.pem")
    values = values_of(SERVICE, file)
    assert values["issuer"] == {
        "url": EXTERNAL["url"],
        "audience": "https://ml.example.org/",
        "jwksUrl": EXTERNAL["jwks_url"],
        "ca": PEM,
    }
    assert values["networkPolicy"]["egressPorts"] == [443, 8443]


def test_an_external_issuer_by_discovery_needs_its_url_only(
    lab: Path, tmp_path: Path, values_of: ValuesOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        "authorization_endpoint": "login",
        "token_endpoint": "token",
        "userinfo_endpoint": "me",
        "jwks_uri": "keys",
    }
    document = {key: f"{EXTERNAL_URL}/{name}" for key, name in names.items()}

    def get(url: str, **_: object) -> requests.Response:
        answer = requests.Response()
        answer.status_code, answer._content, answer.url = 200, json.dumps(document).encode(), url
        return answer

    monkeypatch.setattr("requests.get", get)
    file = with_external_issuer(lab, tmp_path)
    content = yaml.safe_load(file.read_text())
    content["platform"]["services"]["external_issuer"] = {"url": EXTERNAL_URL}
    file.write_text(yaml.safe_dump(content))
    values = values_of(SERVICE, file)
    assert values["issuer"] == {"url": EXTERNAL_URL, "audience": "ml-hub"}
    assert (values["login"]["authorizeUrl"], values["login"]["tokenUrl"]) == (
        f"{EXTERNAL_URL}/login",
        f"{EXTERNAL_URL}/token",
    )
    assert {"apiLoginUrl", "tokenPageUrl"} & values["web"].keys() == set(), "no service logs programs in"


def test_the_operator_provides_the_secret_of_the_client_at_an_external_issuer(lab: Path, tmp_path: Path) -> None:
    file = with_external_issuer(lab, tmp_path)
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "secrets": []}))
    with pytest.raises(
        SiteError, match="the secret of its client ml-hub-login at the external issuer must be provided"
    ):
        load_site(file)


def with_catalogue(lab: Path, directory: Path, catalogue: dict[str, Any], *, mirror: bool = False) -> Path:
    file = with_external_issuer(lab, directory)
    content = yaml.safe_load(file.read_text())
    services = content["platform"]["services"]
    services["ml_hub"]["catalogue"] = catalogue
    if mirror:
        services["hub_mirror"] = {"storage_class": "local"}
    file.write_text(yaml.safe_dump(content))
    return file


def test_a_mirror_of_the_hub(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    catalogue = {"hugging_face": 10, "endpoint": "https://hub.example.org:9443/mirror", "ca_file": "issuer.pem"}
    file = with_catalogue(lab, tmp_path, catalogue)
    values = values_of(SERVICE, file)
    assert values["catalogue"] == {"source": "hub", "limit": 10}
    assert values["hub"] == {"url": catalogue["endpoint"], "ca": PEM}
    assert values["networkPolicy"]["egressPorts"] == [443, 8443, 9443]
    (tmp_path / "issuer.pem").write_text("no certificate")
    with pytest.raises(SiteError, match=r"ml_hub\.catalogue\.ca_file: .* holds no certificate in PEM form"):
        load_site(file)


def test_a_file_and_the_hub_that_has_its_cards(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    catalogue = {"file": "catalogue.json", "endpoint": "https://hub.example.org:9443"}
    values = values_of(SERVICE, with_catalogue(lab, tmp_path, catalogue))
    assert values["catalogue"]["source"] == "file"
    assert values["hub"] == {"url": "https://hub.example.org:9443"}
    assert values["networkPolicy"]["egressPorts"] == [443, 8443, 9443]


@pytest.mark.parametrize("source", [{"file": "catalogue.json"}, {"hugging_face": 10}], ids=["file", "hub"])
def test_the_sites_mirror_has_cards_and_files(
    lab: Path, tmp_path: Path, values_of: ValuesOf, source: dict[str, Any]
) -> None:
    values = values_of(SERVICE, with_catalogue(lab, tmp_path, source, mirror=True))
    inside = "http://hub-mirror-inside.strata-system.svc:8081"
    assert values["hub"] == {"url": inside, "publicUrl": "https://hub.lab.strata.test"}
    (rule,) = values["networkPolicy"]["egress"]
    assert rule["ports"] == [{"port": 8081, "protocol": "TCP"}]
    assert values["networkPolicy"]["egressPorts"] == [443, 8443]
    named = {**source, "endpoint": "https://hub.example.org"}
    assert values_of(SERVICE, with_catalogue(lab, tmp_path, named, mirror=True))["hub"] == {"url": named["endpoint"]}


def test_models_of_the_sites_inference_server(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    file = with_catalogue(lab, tmp_path, {"file": "catalogue.json"}, mirror=True)
    assert values_of(SERVICE, file)["inference"] == {}
    content = yaml.safe_load(file.read_text())
    tenant = content["platform"]["tenants"][0]["name"]
    models = [{"id": "google/flan-t5-large", "memory": "4 GiB", "tenants": [tenant]}, {"id": "tiny", "memory": "1 GiB"}]
    content["platform"]["services"]["inference"] = {"models": models}
    file.write_text(yaml.safe_dump(content))
    tenants = [tenant["name"] for tenant in content["platform"]["tenants"]]
    assert values_of(SERVICE, file)["inference"] == {
        "url": "https://api.lab.strata.test/v3/ml-hub/inference",
        "openaiUrl": "https://inference.lab.strata.test/v1",
        "internalUrl": "http://inference.strata-system.svc:8080",
        "models": {"google/flan-t5-large": [tenant], "tiny": tenants},
    }
    egress = values_of(SERVICE, file)["networkPolicy"]["egress"]
    assert [rule["ports"][0]["port"] for rule in egress] == [8081, 8080], "the hub, the inference server"
    (client,) = (need for service, need in needed(load_site(file), Client) if service is SERVICE)
    assert token_audiences(load_site(file), client) == ("inference",)


def test_the_public_hub_is_that_of_a_catalogue_without_a_file(lab: Path, tmp_path: Path, values_of: ValuesOf) -> None:
    values = values_of(SERVICE, with_catalogue(lab, tmp_path, {"hugging_face": 10}))
    assert values["hub"] == {"url": "https://huggingface.co"}


def test_a_ca_without_an_endpoint_is_refused(lab: Path, tmp_path: Path) -> None:
    file = with_catalogue(lab, tmp_path, {"hugging_face": 10, "ca_file": "issuer.pem"})
    with pytest.raises(SiteError, match="there is no endpoint"):
        load_site(file)


def test_a_catalogue_that_is_gone_is_named(lab: Path, tmp_path: Path, context_of: Callable[..., Any]) -> None:
    file = with_external_issuer(lab, tmp_path)
    context = context_of(SERVICE, file)
    (tmp_path / "catalogue.json").unlink()
    with pytest.raises(UserError, match=r"ml_hub\.catalogue\.file: .*catalogue\.json: No such file"):
        SERVICE.values(context)


CATALOGUES = {
    "empty": (b"", "is not JSON"),
    "cut off": (b'[{"id": "a"}', "is not JSON"),
    "object": (b'{"modells": []}', "must hold a list of models, or an object"),
    "no list": (b'{"datasets": {}}', "datasets must be a list, is dict"),
    "negative likes of a dataset": (
        b'{"datasets": [{"id": "a", "likes": -1}]}',
        "datasets: entry 0 ('a'): likes: Input",
    ),
    "number": (b"1", "must hold a list"),
    "texts": (b'["a"]', "models: entry 0 has no id"),
    "without id": (b'[{"id": "a"}, {"name": "b"}]', "entry 1 has no id"),
    "twice": (b'[{"id": "a"}, {"id": "a"}]', "entry 1: duplicate id 'a'"),
    "negative": (b'[{"id": "a", "downloads": -1}]', "entry 0 ('a'): downloads: Input should be greater than"),
    "empty licence": (b'[{"id": "a", "license": ""}]', "entry 0 ('a'): license: String should have at least 1"),
    "empty data set": (b'[{"id": "a"}, {"id": "b", "datasets": [""]}]', "entry 1 ('b'): datasets.0: String should"),
    "unknown key": (b'[{"id": "a", "dowloads": 1}]', "entry 0 ('a'): dowloads: Extra inputs are not permitted"),
    "long id": (b'[{"id": "' + b"a" * 300 + b'"}]', "id: String should have at most 256 characters"),
    "nan": (b'[{"id": "a", "likes": NaN}]', "NaN is not a JSON number"),
    "latin-1": (b'["\xe9"]', "not UTF-8"),
    "deep": (b"[" * 100_000, "is not JSON"),
    "huge number": (b"[" + b"9" * 5000 + b"]", "is not JSON"),
    "yaml": (b"- id: a\n", "is not JSON"),
    "huge": (b'["' + b"x" * MAXIMUM_CHARACTERS + b'"]', "more than 1,000,000 characters"),
    "very huge": (b'["' + b"x" * 10 * MAXIMUM_CHARACTERS + b'"]', "more than 1,000,000 characters"),
}


@pytest.mark.parametrize("case", CATALOGUES)
def test_a_wrong_catalogue_is_reported_at_the_key_that_names_it(case: str, lab: Path, tmp_path: Path) -> None:
    content, why = CATALOGUES[case]
    file = tmp_path / "site.yaml"
    file.write_text(lab.read_text())
    (tmp_path / "catalogue.json").write_bytes(content)
    with pytest.raises(SiteError) as caught:
        load_site(file)
    (problem,) = caught.value.problems
    assert problem.key == "platform.services.ml_hub.catalogue.file"
    assert why in problem.why
    assert '"datasets"' in problem.fix
