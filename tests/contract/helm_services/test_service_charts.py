"""The charts of the model hub and its issuer, rendered by the real helm."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from strata.catalogue.needs.hostname import INGRESS_NAMESPACE, published
from strata.models import find_site, load_site
from strata.site.paths import REPOSITORY
from strata_services.token_issuer.service import new_signing_key

from .conftest import Change, Helm, Objects, Refused, public_key

CHARTS = ("ml-hub", "token-issuer")
Values = dict[str, Any]


@pytest.fixture(params=CHARTS)
def chart(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def values(chart: str, hub_values: Values, issuer_values: Values) -> Values:
    return {"ml-hub": hub_values, "token-issuer": issuer_values}[chart]


def pod_templates(objects: Objects) -> list[dict[str, Any]]:
    found = []
    for (kind, _), item in objects.items():
        if kind in ("Deployment", "Job"):
            found.append(item["spec"]["template"])
        elif kind == "CronJob":
            found.append(item["spec"]["jobTemplate"]["spec"]["template"])
    return found


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def hub_mode(values: Values) -> Values:
    return {**values, "catalogue": {"source": "hub", "limit": 50000, "endpoint": "https://hub.example.org"}}


def test_lint(helm: Helm, chart: str, values: Values) -> None:
    assert "0 chart(s) failed" in helm.run(values, "lint", "--strict", chart)


def test_rendering_twice_gives_the_same(helm: Helm, chart: str, values: Values) -> None:
    assert helm.text(chart, values) == helm.text(chart, values)
    for file in (REPOSITORY / "helm" / chart / "templates").iterdir():
        assert not re.search(r"\b(lookup|rand\w+|genCA|genSelfSigned\w+|uuidv4|now)\b", code_of(file)), file


def code_of(template: Path) -> str:
    """What stands between braces."""
    return " ".join(re.findall(r"\{\{(.*?)\}\}", template.read_text(), re.DOTALL))


def test_each_value_is_in_the_schema_and_explained(chart: str) -> None:
    directory = REPOSITORY / "helm" / chart
    defaults = yaml.safe_load((directory / "values.yaml").read_text())
    schema = json.loads((directory / "values.schema.json").read_text())
    assert_covered(defaults, schema, ())


def assert_covered(defaults: Values, schema: dict[str, Any], path: tuple[str, ...]) -> None:
    if not schema.get("properties"):
        return
    assert schema["additionalProperties"] is False, path
    assert set(schema["properties"]) - {"global"} == set(defaults), path
    for name, value in defaults.items():
        if isinstance(value, dict):
            assert_covered(value, schema["properties"][name], (*path, name))


def test_images_are_named_by_digest(helm: Helm, chart: str, values: Values) -> None:
    expected = f"{values['image']['repository']}@{values['image']['digest']}"
    for template in pod_templates(helm.template(chart, values)):
        assert {c["image"] for c in containers(template)} == {expected}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda v: v["image"].update(digest="latest"), "image.digest"),
        (lambda v: v["image"].update(tag="1.0"), "tag"),
        (lambda v: v.update(replica=2), "replica"),
        (lambda v: v.update(replicas=0), "replicas"),
        (lambda v: v.update(service={"nodePort": 80}), "nodePort"),
        (lambda v: v.update(ingress={"host": "https://hub"}), "ingress.host"),
        (lambda v: v.pop("ingress"), "ingress.host"),
        (lambda v: v["image"].pop("repository"), "image.repository"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, chart: str, values: Values, change: Change, where: str) -> None:
    change(values)
    with pytest.raises(Refused, match=re.escape(where)):
        helm.text(chart, values)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda v: v["database"].pop("existingSecret"), "database.existingSecret.name"),
        (lambda v: v["database"].update(ca="x"), "database.ca"),
        (lambda v: v["issuer"].update(url="login.example.org"), "issuer.url"),
        (lambda v: v["catalogue"].update(source="web"), "catalogue.source"),
        (lambda v: v["catalogue"].update(text="x" * 1_000_001), "catalogue.text"),
    ],
)
def test_wrong_values_of_the_hub_are_refused(helm: Helm, hub_values: Values, change: Change, where: str) -> None:
    change(hub_values)
    with pytest.raises(Refused, match=re.escape(where)):
        helm.text("ml-hub", hub_values)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda v: v.pop("existingSecret"), "existingSecret"),
        (lambda v: v.update(signingKey="x"), "signingKey"),
        (lambda v: v.update(lifetimeSeconds=7200), "lifetimeSeconds"),
        (lambda v: v.update(previousKeys={"Last Year": public_key()}), "previousKeys"),
        (lambda v: v.update(previousKeys={"last-year": new_signing_key()}), "previousKeys.last-year"),
    ],
)
def test_wrong_values_of_the_issuer_are_refused(helm: Helm, issuer_values: Values, change: Change, where: str) -> None:
    change(issuer_values)
    with pytest.raises(Refused, match=re.escape(where)):
        helm.text("token-issuer", issuer_values)


def test_pods_meet_the_restricted_standard(helm: Helm, chart: str, values: Values) -> None:
    rendered = [helm.template(chart, values)]
    if chart == "ml-hub":
        rendered.append(helm.template(chart, hub_mode(values)))
    for template in [t for objects in rendered for t in pod_templates(objects)]:
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {next(iter(v.keys() - {"name"})) for v in pod["volumes"]} <= {"configMap", "secret", "emptyDir"}
        for container in containers(template):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["resources"]["limits"]["memory"]


def test_charts_make_no_secret(helm: Helm, chart: str, values: Values) -> None:
    assert "Secret" not in {kind for kind, _ in helm.template(chart, values)}


def test_selectors_find_the_pods_and_nothing_else(helm: Helm, hub_values: Values) -> None:
    objects = helm.template("ml-hub", hub_mode(hub_values))
    deployment = objects["Deployment", "ml-hub"]["spec"]
    for name in ("ml-hub", "ml-hub-metrics"):
        selector = objects["Service", name]["spec"]["selector"]
        assert selector.items() <= deployment["template"]["metadata"]["labels"].items()
        assert not selector.items() <= objects["Job", "ml-hub-load"]["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()


def test_ingress_leads_to_the_pods(helm: Helm, chart: str, values: Values) -> None:
    objects = helm.template(chart, values)
    (own,) = (s for s in published(load_site(find_site("lab"))) if s.key == chart.replace("-", "_"))
    (port,) = objects["Service", chart]["spec"]["ports"]
    assert objects["Service", chart]["spec"]["type"] == "ClusterIP"
    assert port["port"] == 8080
    (container,) = objects["Deployment", chart]["spec"]["template"]["spec"]["containers"]
    assert {p["name"]: p["containerPort"] for p in container["ports"]}[port["targetPort"]] == 8080
    assert container["livenessProbe"]["httpGet"]["path"] == own.health_path
    (rule,) = objects["Ingress", chart]["spec"]["rules"]
    assert rule["host"] == values["ingress"]["host"]
    backend = {"service": {"name": chart, "port": {"name": port["name"]}}}
    assert rule["http"]["paths"] == [{"path": "/", "pathType": "Prefix", "backend": backend}]
    assert "ingressClassName" not in objects["Ingress", chart]["spec"]


def test_metrics_have_no_ingress(helm: Helm, hub_values: Values) -> None:
    service = helm.template("ml-hub", hub_values)["Service", "ml-hub-metrics"]["spec"]
    assert service["type"] == "ClusterIP"
    assert [p["name"] for p in service["ports"]] == ["metrics"]
    assert "metrics" not in json.dumps(helm.template("ml-hub", hub_values)["Ingress", "ml-hub"])


def test_replicas_bring_a_budget(helm: Helm, chart: str, values: Values) -> None:
    assert ("PodDisruptionBudget", chart) not in helm.template(chart, values)
    objects = helm.template(chart, {**values, "replicas": 2})
    assert objects["PodDisruptionBudget", chart]["spec"]["maxUnavailable"] == 1
    assert objects["Deployment", chart]["spec"]["replicas"] == 2


def test_settings_are_those_that_the_service_reads(helm: Helm, hub_values: Values) -> None:
    hub_values["issuer"] |= {
        "jwksUrl": "http://token-issuer.platform-services.svc:8080/jwks",
        "ca": hub_values["database"]["ca"],
    }
    data = helm.template("ml-hub", hub_values)["ConfigMap", "ml-hub-settings"]["data"]
    fields = setting_names("ml-hub", "ml_hub")
    assert {name.removeprefix("ML_HUB_").lower() for name in data} <= fields
    container = helm.template("ml-hub", hub_values)["Deployment", "ml-hub"]["spec"]["template"]["spec"]["containers"][0]
    mounts = [m["mountPath"] for m in container["volumeMounts"]]
    for value in data.values():
        if value.startswith("/"):
            assert any(value.startswith(mount + "/") for mount in mounts), value


def test_settings_of_the_issuer_are_those_that_it_reads(helm: Helm, issuer_values: Values) -> None:
    issuer_values["previousKeys"] = {"last-year": public_key()}
    objects = helm.template("token-issuer", issuer_values)
    (container,) = objects["Deployment", "token-issuer"]["spec"]["template"]["spec"]["containers"]
    names = {e["name"].removeprefix("TOKEN_ISSUER_").lower() for e in container["env"]}
    assert names == setting_names("token-issuer", "token_issuer")
    load_pem_public_key(objects["ConfigMap", "token-issuer-previous-keys"]["data"]["last-year.pem"].encode())


def setting_names(service: str, module: str) -> set[str]:
    """Fields of the service's settings, asked from its own environment."""
    project = str(REPOSITORY / "services" / service)
    program = f"from {module}.settings import Settings; print(*Settings.model_fields)"
    run = ["uv", "run", "--quiet", "--frozen", "--no-dev", "--inexact", "--project", project, "python", "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_new_catalogue_or_key_starts_new_pods(helm: Helm, hub_values: Values, issuer_values: Values) -> None:
    changes: list[tuple[str, Values, Change]] = [
        ("ml-hub", hub_values, lambda v: v["catalogue"].update(text="[]")),
        ("ml-hub", hub_values, lambda v: v["issuer"].update(url="https://other.example.org")),
        ("token-issuer", issuer_values, lambda v: v.update(previousKeys={"last-year": public_key()})),
        ("token-issuer", issuer_values, lambda v: v.update(podAnnotations={"strata.dev/secrets": "another"})),
    ]
    for chart, values, change in changes:
        changed = copy.deepcopy(values)
        change(changed)
        before, after = (helm.template(chart, v)["Deployment", chart]["spec"]["template"] for v in (values, changed))
        assert before != after, chart


def test_the_catalogue_of_a_file_is_loaded_by_an_init_container(helm: Helm, hub_values: Values) -> None:
    objects = helm.template("ml-hub", hub_values)
    assert not {kind for kind, _ in objects} & {"Job", "CronJob"}
    init = objects["Deployment", "ml-hub"]["spec"]["template"]["spec"]["initContainers"]
    assert [c["args"][0] for c in init] == ["migrate", "load"]
    assert objects["ConfigMap", "ml-hub-catalogue"]["data"]["catalogue.json"] == hub_values["catalogue"]["text"]


def test_the_catalogue_of_a_hub_is_loaded_by_jobs(helm: Helm, hub_values: Values) -> None:
    objects = helm.template("ml-hub", hub_mode(hub_values))
    assert ("ConfigMap", "ml-hub-catalogue") not in objects
    arguments = ["load", "--hub", "--limit", "50000", "--endpoint", "https://hub.example.org"]
    job = objects["Job", "ml-hub-load"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    cron = objects["CronJob", "ml-hub-load"]["spec"]["jobTemplate"]["spec"]["template"]
    for template in (job["spec"]["template"], cron):
        assert template["spec"]["containers"][0]["args"] == arguments


def test_network_policy_lets_in_what_is_served(helm: Helm, chart: str, values: Values) -> None:
    policy = helm.template(chart, values)["NetworkPolicy", chart]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (requests,) = (rule for rule in policy["ingress"] if {"port": "http", "protocol": "TCP"} in rule["ports"])
    assert requests["from"][0] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": INGRESS_NAMESPACE}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "traefik"}},
    }
    # pods of the same namespace that read the issuer's keys
    own = [{"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "strata"}}}]
    assert requests["from"][1:] == (own if chart == "token-issuer" else [])
    if chart == "ml-hub":
        assert [[p["port"] for p in rule["ports"]] for rule in policy["egress"]] == [[53, 53], [5432], [443]]
    else:
        assert "egress" not in policy
    assert ("NetworkPolicy", chart) not in helm.template(chart, {**values, "networkPolicy": {"enabled": False}})


def test_network_policy_names_its_peers(helm: Helm, hub_values: Values) -> None:
    hub_values["database"]["host"] = "10.77.0.11"
    clients = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "traefik"}}}]
    hub_values["networkPolicy"] = {"clients": clients, "issuerPods": {"app": "issuer"}, "egressPorts": []}
    policy = helm.template("ml-hub", hub_values)["NetworkPolicy", "ml-hub"]["spec"]
    assert [rule["from"] for rule in policy["ingress"]] == [clients]
    dns, database, issuer = (rule["to"] for rule in policy["egress"])
    assert dns[0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert database == [{"ipBlock": {"cidr": "10.77.0.11/32"}}]
    assert issuer == [{"podSelector": {"matchLabels": {"app": "issuer"}}}]


def test_notes_tell_how_to_try_and_where_to_look(helm: Helm, chart: str, values: Values, tmp_path: Path) -> None:
    # helm renders the notes only into a cluster: here they are a template like the others
    copy_of_chart = tmp_path / chart
    shutil.copytree(REPOSITORY / "helm" / chart, copy_of_chart)
    (copy_of_chart / "templates/NOTES.txt").rename(copy_of_chart / "notes.txt")
    template = 'kind: Notes\nmetadata: {name: notes}\ntext: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
    (copy_of_chart / "templates/notes.yaml").write_text(template)
    notes = helm.template(str(copy_of_chart), values, release=chart)["Notes", "notes"]["text"]
    assert "Try it:" in notes
    assert "kubectl -n platform-services" in notes
