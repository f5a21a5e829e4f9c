"""The declaration of Keycloak: its Secret, and what the realm is made from."""

# ruff: noqa: PLC0415  # a fixture puts the image's package on the path

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue import cluster_login
from strata.catalogue.discovery import services
from strata.catalogue.needs import Client, Hostname
from strata.catalogue.service import Service, ServiceContext
from strata_services.keycloak.service import ADMIN_SECRET, CLIENT, CLIENT_SECRET, DATABASE, SERVICE, SIGNING_KEY

Of = Callable[[Service[Any], Path], Any]
NOTEBOOKS = Client("notebooks", ("ml-hub",), hostname=Hostname("notebooks"), redirect_paths=("/hub/oauth_callback",))


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(SERVICE.folder / "src"))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "keycloak_realm"]:
        del sys.modules[name]


def with_people(site_file: Path, directory: Path) -> Path:
    """The site with users in its first tenant."""
    content = yaml.safe_load(site_file.read_text())
    tenant = content["platform"]["tenants"][0]
    tenant["principal_investigators"] = [{"name": "ada", "email": "ada@lab.strata.test"}]
    tenant["members"] = [{"name": "carol"}]
    (directory / "catalogue.json").write_text((site_file.parent / "catalogue.json").read_text())
    (directory / "site.yaml").write_text(yaml.safe_dump(content))
    return directory / "site.yaml"


def test_the_secret_holds_what_both_pods_read(lab: Path, context_of: Of, fake_secrets: Any) -> None:
    context: ServiceContext[Any] = context_of(SERVICE, lab)
    data = context.secret_data()
    assert data[SIGNING_KEY.key].startswith("-----BEGIN PRIVATE KEY-----")
    conf = dict(line.split("=", 1) for line in data["keycloak.conf"].splitlines())
    assert conf == {
        "db-password": fake_secrets.stored[DATABASE.secret],
        "bootstrap-admin-client-secret": data[ADMIN_SECRET.key],
    }
    assert not [key for key in data if key.startswith("previous-")]
    assert context.secret_data() == data, "the key is made once"


def test_the_program_reads_what_the_service_writes(
    lab: Path, context_of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_secrets: Any
) -> None:
    from keycloak_realm.desired import load  # type: ignore[import-not-found]  # in the image, or put on the path above

    more = replace(SERVICE, needs=lambda settings: (*SERVICE.needs(settings), NOTEBOOKS))
    table = tuple(more if service is SERVICE else service for service in services())
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: table)
    context: ServiceContext[Any] = context_of(SERVICE, with_people(lab, tmp_path))
    (tmp_path / "site.json").write_text(context.secret_data()["site.json"])
    desired = load(tmp_path / "site.json", ("key",))
    clients = {client.id: client for client in desired.clients}
    notebooks, verify = clients["notebooks"], clients[CLIENT]
    assert notebooks.secret == fake_secrets.stored[NOTEBOOKS.secret]
    assert notebooks.redirect_urls == ("https://notebooks.lab.strata.test/hub/oauth_callback",)
    assert notebooks.audiences == ("ml-hub",)
    assert not notebooks.service_account
    assert verify.secret == fake_secrets.stored[CLIENT_SECRET]
    assert "ml-hub" in verify.optional_audiences
    assert verify.service_account
    kubectl = clients[cluster_login.CLIENT]
    assert (kubectl.secret, kubectl.device, kubectl.service_account) == ("", True, False)
    assert kubectl.optional_audiences == verify.optional_audiences
    assert kubectl.redirect_urls == cluster_login.REDIRECT_URLS
    tenant, other = desired.tenants
    assert [person.name for person in tenant.administrators] == ["ada"]
    assert [person.name for person in tenant.members] == ["carol"]
    assert (other.administrators, other.members) == ((), ())
    assert desired.people["ada"].email == "ada@lab.strata.test"


def test_the_secrets_before_a_rotation_are_kept_beside(lab: Path, context_of: Of, fake_secrets: Any) -> None:
    context: ServiceContext[Any] = context_of(SERVICE, lab)
    before = context.secret_data()
    for need in (SIGNING_KEY, ADMIN_SECRET):
        fake_secrets.stored[need.previous] = fake_secrets.stored.pop(need.name)
    data = context.secret_data()
    for need in (SIGNING_KEY, ADMIN_SECRET):
        assert data[f"previous-{need.key}"] == before[need.key]
    assert data[SIGNING_KEY.key] != before[SIGNING_KEY.key]
    assert before[SIGNING_KEY.key] not in json.dumps(SERVICE.values(context))


def test_the_chart_mounts_what_the_secret_holds(lab: Path, context_of: Of, objects_of: Of) -> None:
    deployments = {o["metadata"]["name"]: o for o in objects_of(SERVICE, lab) if o["kind"] == "Deployment"}
    volumes = deployments["keycloak"]["spec"]["template"]["spec"]["volumes"]
    (secret,) = (volume["secret"] for volume in volumes if "secret" in volume)
    assert secret["secretName"] == SERVICE.secret_name
    assert {item["key"] for item in secret["items"]} <= context_of(SERVICE, lab).secret_data().keys()


def test_a_new_tenant_does_not_restart_keycloak(lab: Path, objects_of: Of, tmp_path: Path) -> None:
    before, after = (
        {o["metadata"]["name"]: o for o in objects_of(SERVICE, file) if o["kind"] == "Deployment"}
        for file in (lab, with_people(lab, tmp_path))
    )
    assert before["keycloak"] == after["keycloak"]
    assert before["keycloak-realm"] != after["keycloak-realm"]


def test_logins_are_by_code_and_pkce_except_where_a_service_passes_on_passwords() -> None:
    from keycloak_realm.desired import Client as Wanted
    from keycloak_realm.reconcile import representation  # type: ignore[import-not-found]  # as above

    by_code = representation(Wanted("notebooks", "secret", ("ml-hub",), redirect_urls=("https://n.example.org/cb",)))
    assert by_code["standardFlowEnabled"]
    assert not by_code["directAccessGrantsEnabled"]
    assert "tapis" in by_code["defaultClientScopes"]
    assert not by_code["implicitFlowEnabled"]
    assert not by_code["serviceAccountsEnabled"]
    assert by_code["attributes"]["pkce.code.challenge.method"] == "S256"
    assert "audience:ml-hub" in by_code["defaultClientScopes"]
    machine = representation(Wanted("collector", "secret", service_account=True))
    assert not machine["standardFlowEnabled"]
    assert "tapis" not in machine["defaultClientScopes"], "its claims are of people"
    passwords = representation(Wanted("api", "secret", ("ml-hub",), passwords=True))
    assert passwords["directAccessGrantsEnabled"]
    assert not passwords["standardFlowEnabled"]
    assert not passwords["serviceAccountsEnabled"]
    assert "tapis" in passwords["defaultClientScopes"]
    offline = representation(Wanted("tokens", "secret", redirect_urls=("https://t.example.org/cb",), offline=True))
    assert offline["optionalClientScopes"] == ["offline_access"]
    assert not [
        client for client in (by_code, machine, passwords) if "offline_access" in client["optionalClientScopes"]
    ]
    assert machine["serviceAccountsEnabled"]
