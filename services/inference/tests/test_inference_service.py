"""The declaration: checks of the settings, and the release at the lab, rendered by the real helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service
from strata.catalogue.site_needs import hub_clients
from strata.catalogue.site_services import model_endpoint
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_bench.services import service_python
from strata_services.inference.service import SERVICE

LabWith = Callable[..., Path]
ObjectsOf = Callable[[Service[Any], Path], list[dict[str, Any]]]
WORDS = {"id": "research/words", "memory": "1 GiB", "tenants": ["research"], "idle": 2}
FLAN = {"id": "google/flan-t5-large", "revision": "v1", "accelerator": "gpu", "memory": "4 GiB", "cpu": 3}


def with_hub(file: Path) -> Path:
    """The same site with a hub."""
    content = yaml.safe_load(file.read_text())
    content["platform"]["services"]["hub_mirror"] = {}
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture
def objects(lab_with: LabWith, objects_of: ObjectsOf) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and name, at a site with two models."""
    items = objects_of(SERVICE, with_hub(lab_with(SERVICE, models=[WORDS, FLAN])))
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def test_models_are_deployments_that_do_not_run(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    (listed,) = (
        item for (_, name), item in objects.items() if name == "inference-models" and item["kind"] == "ConfigMap"
    )
    words, flan = json.loads(listed["data"]["models.json"])
    assert (words["id"], words["tenants"], words["idle_seconds"]) == ("research/words", ["research"], 120)
    assert (flan["id"], flan["tenants"]) == ("google/flan-t5-large", ["research", "teaching"])
    assert words["url"] == f"http://{words['deployment']}.default.svc:8080"
    for model in (words, flan):
        spec = objects["Deployment", model["deployment"]]["spec"]
        assert spec["replicas"] == 0
        assert (
            objects["Service", model["deployment"]]["spec"]["selector"].items()
            <= spec["template"]["metadata"]["labels"].items()
        )
    pod = objects["Deployment", flan["deployment"]]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert variables["HF_ENDPOINT"] == "http://hub-mirror-inside.strata-system.svc:8081"
    assert (variables["MODEL_SERVER_MODEL"], variables["MODEL_SERVER_REVISION"]) == ("google/flan-t5-large", "v1")
    assert variables["ACCELERATOR"] == "gpu"
    assert container["resources"]["limits"] == {"cpu": "3", "memory": "4096Mi", "nvidia.com/gpu": "1"}
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert "tolerations" not in objects["Deployment", words["deployment"]]["spec"]["template"]["spec"]


def test_rights_are_for_these_deployments(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    rules = objects["Role", "inference"]["rules"]
    names = sorted(name for kind, name in objects if kind == "Deployment" and name != "inference")
    scale = next(rule for rule in rules if rule["resources"] == ["deployments/scale"])
    assert (sorted(scale["resourceNames"]), scale["verbs"]) == (names, ["get", "patch"])
    assert [rule["resources"] for rule in rules if "resourceNames" not in rule] == [["pods"]]


def test_models_reach_the_hub_which_admits_them(
    objects: dict[tuple[str, str], dict[str, Any]], lab_with: LabWith
) -> None:
    policy = objects["NetworkPolicy", "inference-models"]["spec"]
    ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 8081]
    assert all(rule["to"] for rule in policy["egress"])
    (admitted,) = policy["ingress"]
    assert [peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for peer in admitted["from"]] == ["inference"]
    clients = hub_clients(load_site(with_hub(lab_with(SERVICE, models=[WORDS]))))
    labels = policy["podSelector"]["matchLabels"]
    assert any(peer["podSelector"]["matchLabels"].items() <= labels.items() for peer in clients)


def test_the_ml_hub_reaches_it_beside_the_ingress_controller(
    objects: dict[tuple[str, str], dict[str, Any]], lab_with: LabWith
) -> None:
    site = load_site(with_hub(lab_with(SERVICE, models=[WORDS])))
    requests = objects["NetworkPolicy", "inference"]["spec"]["ingress"][0]
    names = [peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for peer in requests["from"]]
    assert names == ["traefik", "ml-hub"]
    endpoint = model_endpoint(site)
    assert endpoint is not None
    (service,) = (item for (kind, name), item in objects.items() if (kind, name) == ("Service", "inference"))
    (port,) = service["spec"]["ports"]
    assert endpoint.internal_url == f"http://inference.strata-system.svc:{port['port']}"
    (container,) = objects["Deployment", "inference"]["spec"]["template"]["spec"]["containers"]
    assert endpoint.port in [
        container_port["containerPort"]
        for container_port in container["ports"]
        if container_port["name"] == port["targetPort"]
    ]
    labels = objects["Deployment", "inference"]["spec"]["template"]["metadata"]["labels"]
    assert endpoint.pods["podSelector"]["matchLabels"].items() <= labels.items()


def test_both_names_lead_to_it(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    own, api = objects["Ingress", "inference"]["spec"]["rules"]
    assert (own["host"], [path["path"] for path in own["http"]["paths"]]) == ("inference.lab.strata.test", ["/"])
    paths = [path["path"] for path in api["http"]["paths"]]
    assert (api["host"], paths) == ("api.lab.strata.test", ["/v3/ml-hub/inference"])


def test_settings_are_those_that_the_service_reads(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    program = "from inference.settings import Settings; print(*Settings.model_fields)"
    done = subprocess.run([service_python("inference"), "-c", program], capture_output=True, text=True, check=True)
    data = objects["ConfigMap", "inference-settings"]["data"]
    assert {name.removeprefix("INFERENCE_").lower() for name in data} <= set(done.stdout.split())


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ([WORDS, {**WORDS, "memory": "2 GiB"}], "duplicate"),
        ([{**WORDS, "tenants": ["none"]}], "is not in platform.tenants"),
        ([{**WORDS, "id": "../words"}], "id"),
        ([{**WORDS, "idle": 0}], "idle"),
    ],
)
def test_models_that_cannot_be(lab_with: LabWith, models: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(SiteError, match=text):
        load_site(with_hub(lab_with(SERVICE, models=models)))


def test_a_site_without_a_hub(lab_with: LabWith) -> None:
    file = lab_with(SERVICE, models=[WORDS])
    content = yaml.safe_load(file.read_text())
    content["platform"]["services"].pop("hub_mirror", None)
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match=r"add platform\.services\.hub_mirror"):
        load_site(file)


def test_a_gpu_needs_a_node_with_one(lab_with: LabWith) -> None:
    file = with_hub(lab_with(SERVICE, models=[FLAN]))
    content = yaml.safe_load(file.read_text())
    for flavor in content["cloud"]["flavors"]:
        flavor.pop("accelerators", None)
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match="GPU on one node"):
        load_site(file)
