"""The chart of Keycloak, rendered by the real helm, beyond what tests/contract/catalogue asks of every chart."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.site.secrets import pki
from strata_bench.helm import Helm, HelmRefused

CHART = "keycloak"
Values = dict[str, Any]


@pytest.fixture(scope="module")
def authority() -> str:
    return pki.create_authority("charts")[0]


@pytest.fixture
def values(authority: str) -> Values:
    """The least that the chart wants."""
    return {
        "image": {"repository": "registry.lab.strata.test:5000/strata/keycloak", "digest": "sha256:" + "b" * 64},
        "realm": "strata",
        "database": {"host": "10.77.0.11", "name": "keycloak", "user": "keycloak", "ca": authority},
        "ingress": {"host": "login.lab.strata.test"},
        "existingSecret": "keycloak-secrets",
    }


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda v: v["image"].update(digest="latest"), "image.digest"),
        (lambda v: v["image"].pop("repository"), "image.repository"),
        (lambda v: v.update(service={"nodePort": 80}), "nodePort"),
        (lambda v: v.update(ingress={"host": "https://login"}), "ingress.host"),
        (lambda v: v.pop("ingress"), "ingress.host"),
        (lambda v: v.pop("existingSecret"), "existingSecret"),
        (lambda v: v.update(signingKey="x"), "signingKey"),
        (lambda v: v.update(realm=""), "realm"),
        (lambda v: v["database"].update(ca="x"), "database.ca"),
        (lambda v: v["database"].update(password="x"), "password"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, values: Values, change: Callable[[Values], object], where: str) -> None:
    change(values)
    with pytest.raises(HelmRefused, match=re.escape(where)):
        helm.text(CHART, values)


def test_ingress_leads_to_the_site_s_realm_only(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, values)
    (rule,) = objects["Ingress", CHART]["spec"]["rules"]
    assert {path["path"] for path in rule["http"]["paths"]} == {"/realms/strata", "/resources"}
    assert {path["backend"]["service"]["name"] for path in rule["http"]["paths"]} == {CHART}
    selector = objects["Service", CHART]["spec"]["selector"]
    server, keeper = (objects["Deployment", name]["spec"] for name in (CHART, "keycloak-realm"))
    for deployment in (server, keeper):
        assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
    assert selector.items() <= server["template"]["metadata"]["labels"].items()
    assert not selector.items() <= keeper["template"]["metadata"]["labels"].items()
    metrics = objects["Service", f"{CHART}-metrics"]["spec"]
    assert [port["name"] for port in metrics["ports"]] == ["metrics"]


def test_passwords_are_in_files(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, values)
    (container,) = objects["Deployment", CHART]["spec"]["template"]["spec"]["containers"]
    assert all("valueFrom" not in entry and "PASSWORD" not in entry["name"] for entry in container["env"])
    (database,) = (entry["value"] for entry in container["env"] if entry["name"] == "KC_DB_URL")
    assert database.startswith("jdbc:postgresql://10.77.0.11:5432/keycloak?sslmode=verify-full&sslrootcert=")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = [container["args"][0].partition("=")[2], database.partition("sslrootcert=")[2]]
    assert all(str(Path(file).parent) in mounts for file in files)


@pytest.mark.parametrize(
    ("annotation", "starts_anew"),
    [("checksum/password", {CHART}), ("strata.dev/secrets", {"keycloak-realm"})],
    ids=["another password", "a new client"],
)
def test_keycloak_restarts_for_what_it_reads_only(
    helm: Helm, values: Values, annotation: str, starts_anew: set[str]
) -> None:
    before, after = (
        {name: item for (kind, name), item in helm.template(CHART, v).items() if kind == "Deployment"}
        for v in (values, {**values, "podAnnotations": {annotation: "another"}})
    )
    assert {name for name in before if before[name] != after[name]} == starts_anew


def test_network_policy_lets_in_the_ingress_and_who_reads_its_keys(helm: Helm, values: Values) -> None:
    policy = helm.template(CHART, values)["NetworkPolicy", CHART]["spec"]
    (requests,) = (rule for rule in policy["ingress"] if {"port": "http", "protocol": "TCP"} in rule["ports"])
    ingress, own = requests["from"]
    assert ingress["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "traefik"}}
    assert own == {"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "strata"}}}
    assert [[port["port"] for port in rule["ports"]] for rule in policy["egress"]] == [[53, 53], [5432]]
    assert ("NetworkPolicy", CHART) not in helm.template(CHART, {**values, "networkPolicy": {"enabled": False}})
