"""The declaration of Dask clusters: values of both sides, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.published import published
from strata.catalogue.service import Service
from strata.platform.releases import releases
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.dask_gateway.needs import NAME
from strata_services.dask_gateway.service import SERVICE
from strata_services.jupyterhub.needs import VERIFY_USER
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB

ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
LabWith = Callable[..., Path]
CLIENT = {"app.kubernetes.io/name": NAME}


def without(site_file: Path, *keys: str) -> Path:
    """The site file without services."""
    content = yaml.safe_load(site_file.read_text())
    for key in keys:
        content["platform"]["services"].pop(key, None)
    site_file.write_text(yaml.safe_dump(content))
    return site_file


def test_its_users_are_those_of_the_hub(values_of: ValuesOf, lab_with: LabWith) -> None:
    values = values_of(SERVICE, lab_with(SERVICE))
    assert values["hub"]["url"] == "http://hub.jupyterhub.svc:8081/hub/api"
    assert {"name": "research", "group": "/tenants/research"} in values["tenants"]
    assert values["users"] == {VERIFY_USER: "research"}
    servers, browsers = values["networkPolicy"]["clients"]
    for peer, component in ((servers, "singleuser-server"), (values["networkPolicy"]["hub"], "hub")):
        assert peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] == "jupyterhub"
        assert peer["podSelector"]["matchLabels"]["component"] == component
    assert browsers == INGRESS_CONTROLLER


def test_what_clusters_serve_is_not_on_the_hosts_of_services_with_logins(
    values_of: ValuesOf, lab_with: LabWith, objects_of: Callable[..., list[dict[str, Any]]]
) -> None:
    """A dashboard is a web server that its user controls: its pages would act as whoever opens them."""
    site_file = lab_with(SERVICE)
    assert "url" not in values_of(JUPYTERHUB, site_file)["hub"]["services"][NAME]
    site = load_site(site_file)
    (ingress,) = (item for item in objects_of(SERVICE, site_file) if item["kind"] == "Ingress")
    (rule,) = ingress["spec"]["rules"]
    assert rule["host"] not in {service.host for service in published(site) if service.key != SERVICE.key}
    assert values_of(JUPYTERHUB, site_file)["singleuser"]["extraEnv"]["DASK_GATEWAY__PUBLIC_ADDRESS"] == (
        f"https://{rule['host']}"
    )
    assert [path["path"] for path in rule["http"]["paths"]] == ["/clusters", "/api/health"]


def test_the_hub_and_its_servers_know_the_gateway(values_of: ValuesOf, lab_with: LabWith) -> None:
    values = values_of(JUPYTERHUB, lab_with(SERVICE))
    assert values["hub"]["services"][NAME] == {}
    roles = values["hub"]["loadRoles"]
    assert f"access:services!service={NAME}" in roles["server"]["scopes"]
    assert f"access:services!service={NAME}" in roles["user"]["scopes"]
    assert roles[NAME] == {"services": [NAME], "scopes": ["read:users:name", "read:servers"]}
    assert values["singleuser"]["extraEnv"]["DASK_GATEWAY__AUTH__TYPE"] == "jupyterhub"
    policy = values["singleuser"]["networkPolicy"]
    (rule,) = (rule for rule in policy["egress"] if rule["ports"] == [{"port": 8000, "protocol": "TCP"}])
    assert rule["to"][0]["podSelector"]["matchLabels"] == CLIENT
    hub = values["hub"]["networkPolicy"]["ingress"]
    assert [{"port": 8081, "protocol": "TCP"}] in [rule["ports"] for rule in hub]


def test_both_sides_have_the_same_token(context_of: Callable[..., Any], lab_with: LabWith, values_of: ValuesOf) -> None:
    site_file = lab_with(SERVICE)
    token = context_of(SERVICE, site_file).secret_data()["hub-token"]
    assert context_of(JUPYTERHUB, site_file).secret_data()[f"hub.services.{NAME}.apiToken"] == token
    for service in (SERVICE, JUPYTERHUB):
        assert token not in json.dumps(values_of(service, site_file))


def test_a_site_without_dask_clusters_has_nothing_of_them(values_of: ValuesOf, lab_with: LabWith) -> None:
    site_file = without(lab_with(SERVICE), SERVICE.key)
    assert "dask" not in json.dumps(values_of(JUPYTERHUB, site_file)).lower()


def test_it_refuses_sites_without_users_or_tenants(lab_with: LabWith) -> None:
    site_file = without(lab_with(SERVICE), "jupyterhub", "htcondor")
    with pytest.raises(SiteError, match="needs JupyterHub"):
        load_site(site_file)


@pytest.mark.parametrize("value", [0, -1, "many", 1.5])
def test_limits_are_counts(lab_with: LabWith, value: object) -> None:
    for key in ("clusters_per_user", "maximum_workers", "worker_cpu", "idle_seconds", "server_check_seconds"):
        with pytest.raises(SiteError, match=f"platform.services.dask_gateway.{key}"):
            load_site(lab_with(SERVICE, **{key: value}))


def test_the_gateway_has_rights_in_the_namespaces_of_tenants_only(
    objects_of: Callable[..., list[dict[str, Any]]], lab_with: LabWith
) -> None:
    site_file = lab_with(SERVICE)
    assert "dask-tenant-research" in {release.name for release in releases(load_site(site_file))}
    for role in (item for item in objects_of(SERVICE, site_file) if item["kind"] == "ClusterRole"):
        resources = {resource for rule in role["rules"] for resource in rule["resources"]}
        verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
        assert "secrets" not in resources
        assert verbs <= {"get", "list", "watch"}
