"""The declaration: the release at the lab, rendered by the real helm, and what other services get."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.hub_mirror.service import INSIDE_PORT, SERVICE, server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.tapis_pods.service import SERVICE as PODS

Objects = dict[tuple[str, str], dict[str, Any]]
LabWith = Callable[..., Path]
ObjectsOf = Callable[[Service[Any], Path], list[dict[str, Any]]]
ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def by_name(items: list[dict[str, Any]]) -> Objects:
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


@pytest.fixture
def objects(lab_with: LabWith, objects_of: ObjectsOf) -> Objects:
    """By kind and name."""
    return by_name(objects_of(SERVICE, lab_with(SERVICE)))


def test_the_port_without_tokens_is_not_published(objects: Objects, lab: Path) -> None:
    (rule,) = objects["Ingress", "hub-mirror"]["spec"]["rules"]
    assert rule["host"] == "hub.lab.strata.test"
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "hub-mirror", "port": {"name": "http"}}
    assert [port["name"] for port in objects["Service", "hub-mirror"]["spec"]["ports"]] == ["http"]
    (inside,) = objects["Service", "hub-mirror-inside"]["spec"]["ports"]
    assert inside["port"] == INSIDE_PORT
    rules = objects["NetworkPolicy", "hub-mirror"]["spec"]["ingress"]
    admitted = {port["port"]: rule["from"] for rule in rules for port in rule["ports"]}
    assert "traefik" in str(admitted["http"])
    assert "traefik" not in str(admitted["inside"])
    named = [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in admitted["inside"]]
    tenants = [tenant.name for tenant in load_site(lab).platform.tenants]
    ml_hub = models = "strata-system"
    assert sorted(named) == sorted([*tenants, "jupyterhub", "htcondor-execute", ml_hub, models])


def test_the_volume_outlives_the_release(objects: Objects) -> None:
    claim = objects["PersistentVolumeClaim", "hub-mirror"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["storageClassName"] == "nfs"
    volumes = objects["Deployment", "hub-mirror"]["spec"]["template"]["spec"]["volumes"]
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    assert claims == {"hub-mirror", "hub-mirror-published"}
    assert objects["Deployment", "hub-mirror"]["spec"]["strategy"] == {"type": "Recreate"}


def test_settings_are_those_that_the_service_reads(
    lab_with: LabWith, objects_of: ObjectsOf, python: Path, tmp_path: Path
) -> None:
    upstream = {"url": "https://hub.example.org:8443", "ca_file": "hub.pem", "proxy": "http://proxy:3128"}
    file = lab_with(SERVICE, upstream={**upstream, "hosts": ["cdn.example.org:9443"], "offline": True})
    (file.parent / "hub.pem").write_text(PEM)
    objects = by_name(objects_of(SERVICE, file))
    program = (
        "import json; from hub_mirror.settings import Settings as S; "
        "print(json.dumps({S.variable(f): i.is_required() for f, i in S.model_fields.items()}))"
    )
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    required: dict[str, bool] = json.loads(done.stdout)
    data = objects["ConfigMap", "hub-mirror-settings"]["data"]
    assert data.keys() <= required.keys()
    assert {name for name, needed in required.items() if needed} <= data.keys()
    assert data["HUB_MIRROR_UPSTREAM"] == "https://hub.example.org:8443"
    assert data["HUB_MIRROR_OFFLINE"] == "true"
    assert data["HUB_MIRROR_CACHE_BYTES"] == str(80 * 2**30)
    assert objects["ConfigMap", "hub-mirror-authorities"]["data"]["upstream.pem"] == PEM
    (container,) = objects["Deployment", "hub-mirror"]["spec"]["template"]["spec"]["containers"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for value in data.values():
        assert not value.startswith("/") or any(f"{value}/".startswith(f"{mount}/") for mount in mounts), value
    # an environment of a directory: what the service itself states of these values
    program = "from hub_mirror.settings import Settings; Settings()"
    paths = {f"HUB_MIRROR_{kind}_PATH": str(tmp_path) for kind in ("STORAGE", "PUBLISHED")} | {
        name: str(file.parent / "hub.pem") for name, value in data.items() if value.startswith("/etc/")
    }
    done = subprocess.run(
        [str(python), "-c", program], env={**data, **paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("upstream", "ports"),
    [
        ({}, [443]),
        ({"url": "https://hub.example.org:8443", "hosts": ["cdn.example.org:9443"]}, [8443, 9443]),
        ({"proxy": "http://proxy:3128"}, [3128]),
        ({"offline": True}, []),
    ],
)
def test_what_the_mirror_may_reach(
    lab_with: LabWith, values_of: ValuesOf, upstream: dict[str, Any], ports: list[int]
) -> None:
    values = values_of(SERVICE, lab_with(SERVICE, upstream=upstream))
    assert values["networkPolicy"]["egressPorts"] == ports


def test_other_services_and_tenants_know_it(
    lab: Path, lab_with: LabWith, values_of: ValuesOf, releases_of: Callable[..., dict[str, list[dict[str, Any]]]]
) -> None:
    content = yaml.safe_load(lab.read_text())
    for key in (SERVICE.key, "inference"):
        del content["platform"]["services"][key]
    file = lab_with(SERVICE)
    (without := file.with_name("without.yaml")).write_text(yaml.safe_dump(content))
    assert "HF_ENDPOINT" not in values_of(JUPYTERHUB, without)["singleuser"]["extraEnv"]
    assert "environment" not in values_of(PODS, without)["tenants"][0]
    assert values_of(HTCONDOR, without)["execute"]["environment"] == {}
    mirror = server(load_site(file))
    assert mirror.environment["HF_ENDPOINT"] == "http://hub-mirror-inside.strata-system.svc:8081"
    notebooks = values_of(JUPYTERHUB, file)["singleuser"]
    assert mirror.environment.items() <= notebooks["extraEnv"].items()
    assert mirror.egress in notebooks["networkPolicy"]["egress"]
    assert {str(tenant["environment"]) for tenant in values_of(PODS, file)["tenants"]} == {str(mirror.environment)}
    assert values_of(HTCONDOR, file)["execute"]["environment"] == mirror.environment
    for objects in releases_of(file, "hub-mirror-tenant").values():
        named = by_name(objects)
        assert named["ConfigMap", "hub-mirror"]["data"] == mirror.environment
        (rule,) = named["NetworkPolicy", "allow-hub-mirror"]["spec"]["egress"]
        assert rule == mirror.egress


def test_jobs_have_its_variables_and_its_port(lab_with: LabWith, objects_of: ObjectsOf) -> None:
    file = lab_with(SERVICE)
    mirror = server(load_site(file))
    objects = objects_of(HTCONDOR, file)
    (settings,) = (o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].endswith("-provisioner"))
    job = json.loads(settings["data"]["job.json"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert mirror.environment.items() <= {variable["name"]: variable["value"] for variable in container["env"]}.items()
    policies = [
        o for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"].get("namespace") == "htcondor-execute"
    ]
    assert any(mirror.egress in policy["spec"]["egress"] for policy in policies)


@pytest.mark.parametrize(
    ("settings", "key", "why"),
    [
        ({"cache_size": "101 GiB"}, "cache_size", "is more than the volume has"),
        ({"upstream": {"hosts": ["a.example.org", "a.example.org"]}}, "upstream.hosts", "duplicate"),
        ({"upstream": {"ca_file": "none.pem"}}, "upstream.ca_file", "there is no file"),
        ({"upstream": {"url": "http://hub.example.org"}}, "upstream.url", ""),
        ({"upstream": {"hosts": ["https://x"]}}, "upstream.hosts", ""),
        ({"upstream": {"proxy": "proxy:3128"}}, "upstream.proxy", ""),
    ],
)
def test_wrong_settings_are_named(lab_with: LabWith, settings: dict[str, Any], key: str, why: str) -> None:
    with pytest.raises(SiteError) as caught:
        load_site(lab_with(SERVICE, **settings))
    (problem,) = caught.value.problems
    assert problem.key.startswith(f"platform.services.hub_mirror.{key}")
    assert why in problem.why


def test_a_site_without_a_storage_class_needs_one(lab_with: LabWith) -> None:
    file = lab_with(SERVICE)
    content = yaml.safe_load(file.read_text())
    del content["platform"]["storage_class"]
    for tenant in content["platform"]["tenants"]:
        tenant["quota"].pop("storage", None)
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match=r"hub_mirror\.storage_class: .*needs a storage class for its cache"):
        load_site(file)
    content["platform"]["services"]["hub_mirror"] = {"storage_class": "fast"}
    file.write_text(yaml.safe_dump(content))
    assert SERVICE.of(load_site(file)) is not None
