"""The declaration of the Pods API, and its charts beyond what tests/contract/catalogue asks of every chart."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.needs import Client
from strata.catalogue.published import published, wildcards
from strata.catalogue.service import Service
from strata.catalogue.site_needs import query_clients
from strata.catalogue.site_services import needed
from strata.catalogue.site_volumes import volumes
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_bench.services import service_python
from strata_services.tapis_pods.service import MEASURES, SERVICE

ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
LabWith = Callable[..., Path]
ObjectsOf = Callable[[Service[Any], Path], list[dict[str, Any]]]


def test_tenants_have_their_quota_images_and_gpus(values_of: ValuesOf, lab_with: LabWith) -> None:
    images = [
        {"repository": "docker.io/library/", "tenants": ["research"]},
        {"repository": "registry.example.org/site/web"},
    ]
    values = values_of(SERVICE, lab_with(SERVICE, images=images))
    research, teaching = values["tenants"]
    assert research == {
        "name": "research",
        "images": ["docker.io/library/", "registry.example.org/site/web"],
        "millicpu": 8000,
        "mebibytes": 16384,
        "gpus": {
            "resource": "nvidia.com/gpu",
            "maximum": 1,
            "node_selector": {"strata.dev/pool": "gpu", "strata.dev/accelerator.v100": "true"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
        },
        "environment": {
            "HF_ENDPOINT": "http://hub-mirror-inside.strata-system.svc:8081",
            "HF_HUB_DISABLE_XET": "1",
        },
    }
    assert teaching["images"] == ["registry.example.org/site/web"]
    assert "gpus" not in teaching
    assert values["domain"] == "pods.lab.strata.test"
    assert values["ingress"]["host"] == "api.lab.strata.test"


def test_the_certificate_covers_the_names_of_pods(lab_with: LabWith) -> None:
    site = load_site(lab_with(SERVICE, hostname="containers"))
    assert wildcards(site) == ("*.containers.lab.strata.test",)


def test_the_pages_have_the_name_that_those_of_pods_end_with(
    objects_of: ObjectsOf, values_of: ValuesOf, lab_with: LabWith
) -> None:
    file = lab_with(SERVICE, hostname="containers")
    name = "containers.lab.strata.test"
    web = values_of(SERVICE, file)["web"]
    assert (web["host"], web["frontPageUrl"]) == (name, "https://lab.strata.test/")
    objects = objects_of(SERVICE, file)
    (rule,) = next(item["spec"]["rules"] for item in objects if item["metadata"]["name"] == "tapis-pods-web")
    assert (rule["host"], [path["path"] for path in rule["http"]["paths"]]) == (name, ["/"])
    site = load_site(file)
    (client,) = (need for service, need in needed(site, Client) if service is SERVICE)
    assert client.redirect_urls(site) == (f"https://{name}/.login/callback",)
    assert client.logout_urls(site) == (f"https://{name}/.logout",)
    services = [service for service in published(site) if service.key == SERVICE.key]
    assert [service.url for service in services] == [f"https://{name}/", "https://api.lab.strata.test/v3/pods"]


def test_another_service_cannot_have_the_name_of_the_pages(lab_with: LabWith) -> None:
    with pytest.raises(SiteError, match="duplicate"):
        load_site(lab_with(SERVICE, hostname="ml-hub"))


@pytest.mark.parametrize(
    ("images", "text"),
    [
        ([{"repository": "docker.io/library/nginx", "tenants": ["none"]}], "is not in platform.tenants"),
        ([{"repository": "nginx"}], "repository"),
        ([{"repository": "docker.io/library/nginx:1"}], "repository"),
    ],
)
def test_images_that_cannot_be(lab_with: LabWith, images: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(SiteError, match=text):
        load_site(lab_with(SERVICE, images=images))


WEB = {"name": "web", "image": "registry.example.org/site/web:1", "command": ["serve", "serve"]}
LISTED = [{"repository": "registry.example.org/site/web"}]


def test_templates_have_the_fields_of_the_api(values_of: ValuesOf, lab_with: LabWith) -> None:
    ports = [{"port": 8000}, {"name": "admin", "protocol": "local_only", "port": 8001}]
    template = {**WEB, "description": "a server", "ports": ports, "resources": {"mem_limit": 512}}
    (entry,) = values_of(SERVICE, lab_with(SERVICE, images=LISTED, templates=[template]))["templates"]
    assert entry == {
        "name": "web",
        "description": "a server",
        "pod_definition": {
            "image": "registry.example.org/site/web:1",
            "command": ["serve", "serve"],
            "networking": {
                "default": {"protocol": "http", "port": 8000},
                "admin": {"protocol": "local_only", "port": 8001},
            },
            "resources": {"mem_limit": 512},
        },
    }


def test_an_image_of_the_sites_own_gets_its_digest(values_of: ValuesOf, lab_with: LabWith) -> None:
    own = "registry.example.org:5000/strata/pod-base"
    templates = [{"name": "web", "image": own}]
    (entry,) = values_of(SERVICE, lab_with(SERVICE, images=[{"repository": own}], templates=templates))["templates"]
    assert entry["pod_definition"]["image"].startswith(f"{own}@sha256:")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ({"image": "registry.example.org/site/other:1"}, "is not in images"),
        ({"image": "registry.example.org:5000/site/web"}, "is not in images"),
        ({"name": "tags"}, "tags is reserved"),
        ({"ports": [{"port": 80}, {"port": 81}]}, "duplicate"),
        ({"ports": [{"port": 80}, {"name": "admin", "port": 80}]}, "duplicate"),
    ],
)
def test_templates_that_cannot_be(lab_with: LabWith, template: dict[str, Any], text: str) -> None:
    with pytest.raises(SiteError, match=text):
        load_site(lab_with(SERVICE, images=LISTED, templates=[{**WEB, **template}]))


def test_pods_need_a_tenant(lab_with: LabWith) -> None:
    file = lab_with(SERVICE)
    content = yaml.safe_load(file.read_text())
    content["platform"]["tenants"] = []
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match="in whose namespace pods run"):
        load_site(file)


def test_names_without_a_pod_lead_to_the_page_alone(objects_of: ObjectsOf, lab: Path) -> None:
    specs = {(item["kind"], item["metadata"]["name"]): item.get("spec", {}) for item in objects_of(SERVICE, lab)}
    (route,) = specs["IngressRoute", "tapis-pods-status-page"]["routes"]
    assert route["match"] == r"HostRegexp(`^[a-z0-9-]+\.pods\.lab\.strata\.test$`)"
    # the route of a pod's name has the length of its rule
    assert route["priority"] == 1
    assert route["middlewares"] == [{"name": "tapis-pods-status-page"}]
    assert specs["Middleware", "tapis-pods-status-page"] == {"replacePath": {"path": "/v3/status-page"}}
    assert not re.fullmatch(route["match"][len("HostRegexp(`") : -2], "pods.lab.strata.test"), "that of the pages"
    published = [path["path"] for rule in specs["Ingress", "tapis-pods"]["rules"] for path in rule["http"]["paths"]]
    assert published == ["/v3/pods", "/v3/pods/volumes", "/v3/pods/snapshots"]


def test_each_name_gets_a_certificate_where_an_acme_server_issues_them(
    values_of: ValuesOf, lab: Path, tmp_path: Path
) -> None:
    content = yaml.safe_load(lab.read_text())
    assert values_of(SERVICE, lab)["ingress"]["certificateResolver"] == ""
    certificate = {"source": "acme", "email": "operators@example.org", "storage_class": "ceph"}
    content["platform"]["ingress"] = {"certificate": certificate}
    shutil.copytree(lab.parent, tmp_path / "lab")
    file = tmp_path / "lab" / "site.yaml"
    file.write_text(yaml.safe_dump(content))
    assert values_of(SERVICE, file)["ingress"]["certificateResolver"] == "acme"


def test_settings_and_tenants_are_those_that_the_service_reads(objects_of: ObjectsOf, lab: Path) -> None:
    maps = {item["metadata"]["name"]: item["data"] for item in objects_of(SERVICE, lab) if item["kind"] == "ConfigMap"}
    lists = maps["tapis-pods-tenants"]
    program = (
        "import sys; from pydantic import TypeAdapter;"
        "from pods.settings import ApiSettings, FilesSettings, ReconcileSettings, SiteTemplate, Tenant;"
        "TypeAdapter(list[Tenant]).validate_json(sys.stdin.readline());"
        "assert TypeAdapter(list[SiteTemplate]).validate_json(sys.stdin.readline());"
        "print(*ApiSettings.model_fields, *FilesSettings.model_fields, *ReconcileSettings.model_fields)"
    )
    done = subprocess.run(
        [service_python("tapis-pods"), "-c", program],
        input="\n".join(lists[name] for name in ("tenants.json", "templates.json")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {name.removeprefix("PODS_").lower() for name in maps["tapis-pods-settings"]} <= set(done.stdout.split())


def test_volumes_are_mounted_where_they_are_served(objects_of: ObjectsOf, lab: Path) -> None:
    objects = objects_of(SERVICE, lab)
    mounted = {}
    for item in objects:
        if item["kind"] == "Deployment":
            pod = item["spec"]["template"]["spec"]
            claims = [volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
            for container in [*pod["initContainers"], *pod["containers"]]:
                if "volumes" in {mount["name"] for mount in container["volumeMounts"]}:
                    mounted[tuple(container["args"])] = claims
    assert mounted == {("files",): [{"claimName": "pods"}]}
    ingresses = {item["metadata"]["name"]: item for item in objects if item["kind"] == "Ingress"}
    paths = ingresses["tapis-pods"]["spec"]["rules"][0]["http"]["paths"]
    assert {path["path"]: path["backend"]["service"]["name"] for path in paths} == {
        "/v3/pods": "tapis-pods",
        "/v3/pods/volumes": "tapis-pods-files",
        "/v3/pods/snapshots": "tapis-pods-files",
    }


def test_each_tenant_has_a_volume_of_its_own_folder(lab_with: LabWith) -> None:
    site = load_site(lab_with(SERVICE))
    folders = {(volume.namespace, volume.path) for volume in volumes(site) if volume.claim == "pods"}
    assert folders == {("strata-system", "/pods"), ("research", "/pods/research"), ("teaching", "/pods/teaching")}


def prometheus_of(objects: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The URL that is queried, and the rules of what pods of the service may reach."""
    (url,) = (item["data"]["PODS_PROMETHEUS_URL"] for item in objects if "PODS_PROMETHEUS_URL" in item.get("data", {}))
    (policy,) = (item for item in objects if item["kind"] == "NetworkPolicy")
    return url, policy["spec"]["egress"]


def test_pods_are_measured_by_the_sites_prometheus(
    objects_of: ObjectsOf, lab: Path, context_of: Callable[..., Any]
) -> None:
    server = context_of(SERVICE, lab).provide(MEASURES)
    url, egress = prometheus_of(objects_of(SERVICE, lab))
    assert url == server.url
    (rule,) = (rule for rule in egress if rule.get("to") == [server.pods])
    assert rule["ports"] == [{"port": server.port, "protocol": "TCP"}]
    assert any(SERVICE.name in str(client) for client in query_clients(load_site(lab)))


def test_without_a_prometheus_nothing_leads_to_one(
    objects_of: ObjectsOf, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.catalogue.needs.metrics_query.metrics_server", lambda _: None)
    url, egress = prometheus_of(objects_of(SERVICE, lab))
    assert url == ""
    assert 9090 not in {port["port"] for rule in egress for port in rule["ports"]}


def test_only_two_containers_reach_kubernetes_and_only_in_tenants(objects_of: ObjectsOf, lab: Path) -> None:
    objects = objects_of(SERVICE, lab)
    assert not [item for item in objects if "Role" in item["kind"]]
    token = "/var/run/secrets/kubernetes.io/serviceaccount"  # a path
    accounts = {}
    for item in objects:
        if item["kind"] == "Deployment":
            pod = item["spec"]["template"]["spec"]
            for container in [*pod["initContainers"], *pod["containers"]]:
                mounted = token in {mount["mountPath"] for mount in container["volumeMounts"]}
                assert mounted == (container["args"] in (["serve"], ["reconcile"]))
            accounts[item["metadata"]["name"]] = pod.get("serviceAccountName")
    own = {name: name for name in ("tapis-pods", "tapis-pods-reconciler")}
    assert accounts == {**own, "tapis-pods-files": None}
    assert "metrics" not in json.dumps([item for item in objects if item["kind"] == "Ingress"])
