"""The chart of the model hub, rendered by the real helm, beyond what tests/contract/catalogue asks of every chart."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from strata.catalogue.needs.hostname import INGRESS_NAMESPACE
from strata.catalogue.published import published
from strata.site.paths import REPOSITORY
from strata.site.secrets import pki
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata_bench.api_server import ApiServer
from strata_bench.helm import Helm, Objects
from strata_bench.services import service_python

CHART = "ml-hub"
Values = dict[str, Any]
Change = Callable[[Values], object]


@pytest.fixture(scope="module")
def authority() -> str:
    return pki.create_authority("charts")[0]


@pytest.fixture
def values(authority: str) -> Values:
    """The least that the chart wants."""
    return {
        "image": {"repository": "registry.lab.strata.test:5000/strata/ml-hub", "digest": "sha256:" + "a" * 64},
        "database": {"host": "services-1.lab.strata.test", "existingSecret": {"name": "database"}, "ca": authority},
        "issuer": {"url": "https://login.lab.strata.test"},
        "login": {
            "authorizeUrl": "https://login.lab.strata.test/authorize",
            "tokenUrl": "http://keycloak.platform-services.svc:8080/token",
            "client": {"existingSecret": {"name": "login"}},
            "sessionKey": {"existingSecret": {"name": "login"}},
        },
        "ingress": {"host": "ml-hub.lab.strata.test"},
        "catalogue": {"text": (REPOSITORY / "inventories/lab/catalogue.json").read_text()},
    }


def pod_templates(objects: Objects) -> list[dict[str, Any]]:
    templates = []
    for (kind, _), item in objects.items():
        if kind in ("Deployment", "Job"):
            templates.append(item["spec"]["template"])
        elif kind == "CronJob":
            templates.append(item["spec"]["jobTemplate"]["spec"]["template"])
    return templates


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def load_job(objects: Objects) -> dict[str, Any]:
    (job,) = (item for (kind, name), item in objects.items() if kind == "Job" and name.startswith("ml-hub-load-"))
    return job


def hub_mode(values: Values) -> Values:
    return {**values, "catalogue": {"source": "hub", "limit": 50000}, "hub": {"url": "https://hub.example.org"}}


def test_pods_of_a_hub_s_catalogue_meet_the_restricted_standard(helm: Helm, values: Values) -> None:
    for template in pod_templates(helm.template(CHART, hub_mode(values))):
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {next(iter(v.keys() - {"name"})) for v in pod["volumes"]} <= {
            "configMap",
            "secret",
            "emptyDir",
            "projected",
        }
        for container in containers(template):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["resources"]["limits"]["memory"]


def test_selectors_find_the_pods_and_nothing_else(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, hub_mode(values))
    deployment = objects["Deployment", CHART]["spec"]
    for name in ("ml-hub", "ml-hub-metrics"):
        selector = objects["Service", name]["spec"]["selector"]
        assert selector.items() <= deployment["template"]["metadata"]["labels"].items()
        assert not selector.items() <= load_job(objects)["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()


def test_ingress_leads_to_the_pods(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, values)
    (own,) = (s for s in published(load_site(find_site("lab"))) if s.key == "ml_hub" and s.path == "/")
    (port,) = objects["Service", CHART]["spec"]["ports"]
    assert objects["Service", CHART]["spec"]["type"] == "ClusterIP"
    assert port["port"] == 8080
    (container,) = objects["Deployment", CHART]["spec"]["template"]["spec"]["containers"]
    assert {p["name"]: p["containerPort"] for p in container["ports"]}[port["targetPort"]] == 8080
    assert container["livenessProbe"]["httpGet"]["path"] == own.health_path
    (rule,) = objects["Ingress", CHART]["spec"]["rules"]
    assert rule["host"] == values["ingress"]["host"]
    backend = {"service": {"name": CHART, "port": {"name": port["name"]}}}
    assert rule["http"]["paths"] == [{"path": "/", "pathType": "Prefix", "backend": backend}]
    assert "ingressClassName" not in objects["Ingress", CHART]["spec"]


def test_paths_of_the_api_lead_to_the_pods(helm: Helm, values: Values) -> None:
    values["ingress"]["api"] = {"host": "api.lab.strata.test", "className": "traefik", "paths": ["/v3/ml-hub"]}
    own, api = helm.template(CHART, values)["Ingress", CHART]["spec"]["rules"]
    backend = own["http"]["paths"][0]["backend"]
    assert api["host"] == "api.lab.strata.test"
    assert api["http"]["paths"] == [{"path": "/v3/ml-hub", "pathType": "Prefix", "backend": backend}]


def test_metrics_have_no_ingress(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, values)
    service = objects["Service", f"{CHART}-metrics"]["spec"]
    assert service["type"] == "ClusterIP"
    assert [p["name"] for p in service["ports"]] == ["metrics"]
    assert "metrics" not in json.dumps(objects["Ingress", CHART])


def test_replicas_bring_a_budget(helm: Helm, values: Values) -> None:
    assert ("PodDisruptionBudget", CHART) not in helm.template(CHART, values)
    objects = helm.template(CHART, {**values, "replicas": 2})
    assert objects["PodDisruptionBudget", CHART]["spec"]["maxUnavailable"] == 1
    assert objects["Deployment", CHART]["spec"]["replicas"] == 2


def test_settings_are_those_that_the_service_reads(helm: Helm, values: Values) -> None:
    values["issuer"] |= {
        "jwksUrl": "http://keycloak.platform-services.svc:8080/certs",
        "ca": values["database"]["ca"],
    }
    values["hub"] = {"url": "https://hub.example.org", "publicUrl": "https://h.org", "ca": values["database"]["ca"]}
    values["inference"] = {
        "url": "https://api.example.org/v3/ml-hub/inference",
        "internalUrl": "http://inference.strata-system.svc:8080",
        "openaiUrl": "https://inference.example.org/v1",
        "models": {"a/b": ["research"]},
    }
    values["web"] = {
        "logoutUrl": "https://login.example.org/logout",
        "frontPageUrl": "https://example.org/",
        "apiLoginUrl": "https://api.example.org/v3/oauth2/tokens",
        "tokenPageUrl": "https://tokens.example.org/",
    }
    data = helm.template(CHART, values)["ConfigMap", "ml-hub-settings"]["data"]
    assert json.loads(data["ML_HUB_INFERENCE_MODELS"]) == {"a/b": ["research"]}
    fields = setting_names()
    assert {name.removeprefix("ML_HUB_").lower() for name in data} <= fields
    container = helm.template(CHART, values)["Deployment", CHART]["spec"]["template"]["spec"]["containers"][0]
    mounts = [m["mountPath"] for m in container["volumeMounts"]]
    for value in data.values():
        if value.startswith("/"):
            assert any(value.startswith(mount + "/") for mount in mounts), value


def setting_names() -> set[str]:
    """Fields of the service's settings, asked from its own environment."""
    program = "from ml_hub.settings import Settings; print(*Settings.model_fields)"
    done = subprocess.run([service_python(CHART), "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "change",
    [lambda v: v["catalogue"].update(text="[]"), lambda v: v["issuer"].update(url="https://other.example.org")],
)
def test_a_new_catalogue_or_issuer_starts_new_pods(helm: Helm, values: Values, change: Change) -> None:
    changed = copy.deepcopy(values)
    change(changed)
    before, after = (helm.template(CHART, v)["Deployment", CHART]["spec"]["template"] for v in (values, changed))
    assert before != after


def test_the_catalogue_of_a_file_is_loaded_by_an_init_container(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, values)
    assert not {kind for kind, _ in objects} & {"Job", "CronJob"}
    init = objects["Deployment", CHART]["spec"]["template"]["spec"]["initContainers"]
    assert [c["args"][0] for c in init] == ["migrate", "load"]
    assert objects["ConfigMap", "ml-hub-catalogue"]["data"]["catalogue.json"] == values["catalogue"]["text"]


def test_the_catalogue_of_a_hub_is_loaded_by_jobs(helm: Helm, values: Values) -> None:
    objects = helm.template(CHART, hub_mode(values))
    assert ("ConfigMap", "ml-hub-catalogue") not in objects
    arguments = ["load", "--hub", "--limit", "50000", "--endpoint", "https://hub.example.org"]
    cron = objects["CronJob", "ml-hub-load"]["spec"]["jobTemplate"]["spec"]
    assert load_job(objects)["spec"] == cron
    (container,) = cron["template"]["spec"]["containers"]
    assert container["args"] == arguments
    assert "env" not in container


def test_a_hub_that_does_not_respond_stops_no_release(helm: Helm, values: Values) -> None:
    """Helm waits for hooks, and for no plain Job; a changed Job is another one, because none can be changed."""
    values = hub_mode(values)
    first = load_job(helm.template(CHART, values))
    assert "annotations" not in first["metadata"]
    assert load_job(helm.template(CHART, {**values, "replicas": 2}))["metadata"] == first["metadata"]
    values["catalogue"]["limit"] = 10
    second = load_job(helm.template(CHART, values))
    assert second["metadata"]["name"] != first["metadata"]["name"]
    values["image"]["digest"] = "sha256:" + "b" * 64
    assert load_job(helm.template(CHART, values))["metadata"]["name"] != second["metadata"]["name"]


def test_the_ca_of_a_mirror_is_for_the_mirror_only(helm: Helm, values: Values, authority: str) -> None:
    values = hub_mode(values)
    values["hub"]["ca"] = authority
    objects = helm.template(CHART, values)
    assert objects["ConfigMap", "ml-hub-authorities"]["data"]["hub.pem"] == authority
    (container,) = load_job(objects)["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "SSL_CERT_FILE", "value": "/etc/ml-hub/authorities/hub.pem"}]
    (server,) = objects["Deployment", CHART]["spec"]["template"]["spec"]["containers"]
    assert "env" not in server
    assert objects["ConfigMap", "ml-hub-settings"]["data"]["ML_HUB_HUB_CA_FILE"] == "/etc/ml-hub/authorities/hub.pem"


def test_network_policy_lets_in_what_is_served(helm: Helm, values: Values) -> None:
    policy = helm.template(CHART, values)["NetworkPolicy", CHART]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (requests,) = (rule for rule in policy["ingress"] if {"port": "http", "protocol": "TCP"} in rule["ports"])
    ingress = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": INGRESS_NAMESPACE}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "traefik"}},
    }
    assert requests["from"] == [ingress]
    assert [[p["port"] for p in rule["ports"]] for rule in policy["egress"]] == [[53, 53], [5432], [443]]
    assert ("NetworkPolicy", CHART) not in helm.template(CHART, {**values, "networkPolicy": {"enabled": False}})


def test_network_policy_names_its_peers(helm: Helm, values: Values) -> None:
    values["database"]["host"] = "10.77.0.11"
    clients = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "traefik"}}}]
    mirror = {"to": [{"podSelector": {"matchLabels": {"app": "mirror"}}}], "ports": [{"port": 8081, "protocol": "TCP"}]}
    values["networkPolicy"] = {
        "clients": clients,
        "issuerPods": {"app": "issuer"},
        "egressPorts": [],
        "egress": [mirror],
    }
    policy = helm.template(CHART, values)["NetworkPolicy", CHART]["spec"]
    assert [rule["from"] for rule in policy["ingress"]] == [clients]
    assert policy["egress"].pop() == mirror
    dns, database, issuer = (rule["to"] for rule in policy["egress"])
    assert dns[0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert database == [{"ipBlock": {"cidr": "10.77.0.11/32"}}]
    assert issuer == [{"podSelector": {"matchLabels": {"app": "issuer"}}}]


@pytest.mark.parametrize(
    "changes",
    [
        {"catalogue": {"source": "hub", "limit": 100}},
        {"replicas": 2, "hostAliases": [{"ip": "10.77.0.5", "hostnames": ["services-1.lab.strata.test"]}]},
    ],
    ids=["catalogue of a hub", "two replicas"],
)
def test_an_api_server_takes_what_the_lab_does_not_use(
    helm: Helm, api_server: ApiServer, values: Values, changes: Values
) -> None:
    done = api_server.dry_run(api_server.namespace("ml-hub-chart"), helm.text(CHART, {**values, **changes}))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"deployment.apps/{CHART} created (server dry run)" in done.stdout
