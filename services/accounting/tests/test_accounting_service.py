"""The declaration of the service and its chart, without a site."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.needs.metrics import SCRAPERS
from strata.catalogue.service import Service
from strata.catalogue.site_needs import query_clients
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.accounting.service import METRICS, SERVICE

LabWith = Callable[..., Path]
ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
ObjectsOf = Callable[[Service[Any], Path], list[dict[str, Any]]]


def test_values_name_the_tenants_and_the_cards(lab_with: LabWith, values_of: ValuesOf) -> None:
    values = values_of(SERVICE, lab_with(SERVICE))
    assert values["tenants"] == ["research", "teaching"]
    assert values["cardResources"] == ["nvidia.com/gpu"]
    assert values["database"]["existingSecret"] == {"name": "accounting-secrets", "key": "accounting_database_password"}
    assert values["priorityClassName"] == "platform"


def test_prometheus_reads_the_collector_alone(lab_with: LabWith, objects_of: ObjectsOf) -> None:
    site_file = lab_with(SERVICE, measurements={})
    specs = {(o["kind"], o["metadata"]["name"]): o["spec"] for o in objects_of(SERVICE, site_file) if "spec" in o}
    annotations = {
        name: specs["Deployment", name]["template"]["metadata"]["annotations"].get("prometheus.io/port")
        for name in ("accounting", "accounting-measurements")
    }
    assert annotations == {"accounting": "9101", "accounting-measurements": None}


def prometheus_of(objects: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The URL that the collector queries, and its egress rules."""
    (configuration,) = (o["data"] for o in objects if "ACCOUNTING_PROMETHEUS_URL" in o.get("data", {}))
    (policy,) = (o for o in objects if o["kind"] == "NetworkPolicy")
    return configuration["ACCOUNTING_PROMETHEUS_URL"], policy["spec"]["egress"]


def test_usage_comes_from_the_sites_prometheus(
    lab_with: LabWith, objects_of: ObjectsOf, context_of: Callable[..., Any]
) -> None:
    site_file = lab_with(SERVICE)
    server = context_of(SERVICE, site_file).provide(METRICS)
    url, egress = prometheus_of(objects_of(SERVICE, site_file))
    assert url == server.url
    (rule,) = (rule for rule in egress if rule.get("to") == [server.pods])
    assert rule["ports"] == [{"port": server.port, "protocol": "TCP"}]


def test_without_a_prometheus_nothing_leads_to_one(
    lab_with: LabWith, objects_of: ObjectsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.catalogue.needs.metrics_query.metrics_server", lambda _: None)
    url, egress = prometheus_of(objects_of(SERVICE, lab_with(SERVICE)))
    assert url == ""
    assert {port["port"] for rule in egress for port in rule["ports"]} == {53, 6443, 5432, 9618}


@pytest.mark.parametrize(
    ("url", "port"), [("http://prometheus.monitoring.svc:9090/", 9090), ("https://prometheus.example.org", 443)]
)
def test_values_lead_to_prometheus(lab_with: LabWith, values_of: ValuesOf, url: str, port: int) -> None:
    site_file = lab_with(SERVICE, prometheus=url)
    assert values_of(SERVICE, site_file)["prometheus"] == {"url": url.rstrip("/"), "port": port}
    assert SERVICE.name not in str(query_clients(load_site(site_file)))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"service_units": {"card": -1}}, "card"),
        ({"service_units": {"core": 0.5}}, "core"),
        ({"service_units": {"gpu": 2}}, "gpu"),
        ({"prometheus": "prometheus.monitoring.svc"}, "prometheus"),
        ({"prometheus": "file:///etc/passwd"}, "prometheus"),
    ],
)
def test_wrong_settings_are_refused(lab_with: LabWith, settings: dict[str, Any], key: str) -> None:
    with pytest.raises(SiteError) as error:
        load_site(lab_with(SERVICE, **settings))
    assert any(key in str(problem.key) for problem in error.value.problems)


def test_the_pod_is_confined(lab_with: LabWith, objects_of: ObjectsOf) -> None:
    objects = {item["kind"]: item for item in objects_of(SERVICE, lab_with(SERVICE))}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["initContainers"] + pod["containers"]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert "@sha256:" in container["image"]
    assert {tuple(rule["resources"]): sorted(rule["verbs"]) for rule in objects["ClusterRole"]["rules"]} == {
        ("pods",): ["list", "watch"],
        ("nodes",): ["list"],
    }


def test_nothing_but_prometheus_comes_in(lab_with: LabWith, objects_of: ObjectsOf) -> None:
    (policy,) = (o for o in objects_of(SERVICE, lab_with(SERVICE)) if o["kind"] == "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == [{"from": list(SCRAPERS), "ports": [{"port": "metrics", "protocol": "TCP"}]}]
    (policy,) = (
        o
        for o in objects_of(SERVICE, lab_with(SERVICE, prometheus="http://prometheus.monitoring.svc:9091"))
        if o["kind"] == "NetworkPolicy"
    )
    assert 9091 in {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("image", "digest"), "latest"),
        (("image", "tag"), "1.0"),
        (("database", "ca"), "x"),
        (("database", "password"), "secret"),
        (("tenants",), ["a,b"]),
        (("prometheus",), {"url": "prometheus"}),
        (("replicas",), 2),
    ],
)
def test_wrong_values_are_refused(lab_with: LabWith, values_of: ValuesOf, path: tuple[str, ...], value: object) -> None:
    values = copy.deepcopy(values_of(SERVICE, lab_with(SERVICE)))
    place = values
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    done = subprocess.run(
        ["helm", "template", "accounting", str(REPOSITORY / "helm/accounting"), "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert path[-1] in done.stderr, done.stderr


def test_the_lab_reads_its_pool(lab_with: LabWith, values_of: ValuesOf, monkeypatch: pytest.MonkeyPatch) -> None:
    site_file = lab_with(SERVICE)
    pool = values_of(SERVICE, site_file)["htcondor"]
    assert pool["schedds"] == [f"{tenant}@{pool['domain']}" for tenant in ("research", "teaching")]
    assert pool["existingSecret"] == {"name": "accounting-secrets", "key": "batch-monitor-token"}
    monkeypatch.setattr("strata.catalogue.needs.batch_queue.batch_server", lambda _: None)
    assert "htcondor" not in values_of(SERVICE, site_file)


def test_jobs_are_read_where_there_is_a_pool(lab_with: LabWith, values_of: ValuesOf) -> None:
    values = values_of(SERVICE, lab_with(SERVICE))
    pods = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "htcondor"}}}
    pool = {
        "collector": "central-manager.htcondor.svc:9618",
        "schedds": ["research@example.org"],
        "domain": "example.org",
        "existingSecret": {"name": "accounting-secrets", "key": "monitor"},
        "pods": pods,
    }

    def chart(htcondor: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        command = ["helm", "template", "accounting", str(REPOSITORY / "helm/accounting"), "--values", "-"]
        text = yaml.safe_dump(values | {"htcondor": htcondor})
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def parts(htcondor: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
        """Names of the containers, and rules of egress to HTCondor."""
        objects = {item["kind"]: item for item in yaml.safe_load_all(chart(htcondor).stdout)}
        spec = objects["Deployment"]["spec"]["template"]["spec"]
        egress = objects["NetworkPolicy"]["spec"]["egress"]
        return [c["name"] for c in spec["containers"]], [r for r in egress if r["ports"][0]["port"] == 9618]

    assert parts({}) == (["collect"], [])
    assert parts(pool) == (["collect", "jobs"], [{"ports": [{"port": 9618, "protocol": "TCP"}], "to": [pods]}])
    refused = chart(pool | {"existingSecret": {"key": "monitor"}})
    assert refused.returncode != 0
    assert "existingSecret" in refused.stderr
