"""The chart of every service of the catalogue, with the values that Strata writes, judged by the real helm."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from strata.catalogue.discovery import services
from strata.catalogue.needs import Namespace, Priority, TenantNamespaces, UpstreamChart
from strata.catalogue.published import published
from strata.catalogue.service import FINGERPRINT_KEY, Service, Values
from strata.platform.releases import PlatformState, Release, releases, service_context
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY
from strata_bench.api_server import ApiServer
from strata_bench.made_up_secrets import MadeUpSecrets

from ...unit.platform.test_values import DIGEST, IMAGES, SITES, state_of

HELM = Path(sys.executable).with_name("helm")
RECORDED = REPOSITORY / "tests" / "contract" / "charts" / "recorded"
INGRESS_KINDS = REPOSITORY / "lab" / "charts" / "traefik" / "crds" / "traefik.io.yaml"
POD_PATHS = {"CronJob": ("spec", "jobTemplate", "spec", "template"), "Pod": ()}
Object = dict[str, Any]


class Case(NamedTuple):
    """A release of a service at the first site that has the service."""

    service: Service[Any]
    release: Release
    state: PlatformState

    @property
    def own_namespace(self) -> Namespace | None:
        """That the service needs for itself."""
        needs = self.service.needs(self.service.of(self.state.site))
        return next((need for need in needs if isinstance(need, Namespace)), None)


@cache
def states() -> list[PlatformState]:
    """Of every site with a cluster, the lab first."""
    base = {name: f"registry.example.org:5000/strata/{name}@{DIGEST}" for name in ("pause", "pod-base")}
    images = ImageOutputs(images={**IMAGES.images, **base})
    loaded = [replace(state_of(file), images=images) for file in SITES.values()]
    return sorted((state for state in loaded if state.site.cluster), key=lambda state: state.site.name != "lab")


def state_with(service: Service[Any]) -> PlatformState:
    """A site that has the service; the lab with its default settings if there is none."""
    for state in states():
        if service.of(state.site) is not None:
            return state
    site = states()[0].site
    sections = site.platform.services.model_copy(update={service.key: service.section()})
    platform = site.platform.model_copy(update={"services": sections})
    return replace(states()[0], site=site.model_copy(update={"platform": platform}))


def cases() -> Iterator[Case]:
    """The release of each service, and those for one tenant."""
    for service in services():
        state = state_with(service)
        needs = service.needs(service.of(state.site))
        charts = {need.chart for need in needs if isinstance(need, TenantNamespaces)}
        table = {release.chart: release for release in reversed(releases(state.site))}
        yield from (Case(service, table[chart], state) for chart in sorted({service.name, *charts} & table.keys()))


CASES = list(cases())
every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.release.name)


def directory(case: Case) -> Path:
    """The chart, or the substitute of a chart of another project."""
    own = REPOSITORY / "helm" / case.release.chart
    return own if own.is_dir() else REPOSITORY / "lab" / "charts" / case.release.chart


def is_own(case: Case) -> bool:
    """Whether Strata wrote the chart; charts of others follow their projects' rules where these differ."""
    return directory(case).parent.name == "helm"


def helm(case: Case, values: Values, *command: str, chart: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The real helm with values on standard input."""
    return subprocess.run(
        [str(HELM), *command, str(chart or directory(case)), "--namespace", case.release.namespace, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def template(case: Case, values: Values) -> list[Object]:
    """The objects of the release."""
    done = helm(case, values, "template", case.release.name)
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


@cache
def objects(name: str) -> list[Object]:
    """With Strata's values."""
    case = next(case for case in CASES if case.release.name == name)
    return template(case, case.release.values(case.state))


def pods(items: list[Object]) -> Iterator[Object]:
    """The pods and pod templates among objects."""
    for item in items:
        inner: Any = item
        for step in POD_PATHS.get(item["kind"], ("spec", "template")):
            inner = inner.get(step, {}) if isinstance(inner, dict) else {}
        if isinstance(inner, dict) and "containers" in inner.get("spec", {}):
            yield inner


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


@every
def test_it_is_clean(case: Case) -> None:
    done = helm(case, case.release.values(case.state), "lint", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


@every
def test_the_same_values_give_the_same_objects(case: Case) -> None:
    for file in sorted((directory(case) / "templates").iterdir()):
        actions = " ".join(re.findall(r"\{\{.*?\}\}", file.read_text(), re.DOTALL))
        # the manifest repeats the scale of models, which is the API's: an upgrade does not stop them (decision 111)
        actions = actions.replace('lookup "apps/v1" "Deployment" .root.Release.Namespace .name', "")
        assert not re.findall(r"\b(lookup|rand\w+|gen[A-Z]\w+|uuidv4|now)\b", actions), file.name


def schemas(schema: Any, path: str = "") -> Iterator[tuple[str, Object]]:
    """The objects that a schema describes, by their path in it."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, value in schema.items():
            yield from schemas(value, f"{path}/{key}")


def without_default(schema: Object, defaults: Object, path: str = "") -> Iterator[str]:
    """Keys of the schema that values.yaml does not show; where a default is empty, any may be set."""
    for key, subschema in schema.get("properties", {}).items():
        if key not in defaults and key != "global":
            yield f"{path}{key}"
        elif isinstance(defaults.get(key), dict) and defaults[key]:
            yield from without_default(subschema, defaults[key], f"{path}{key}.")


@every
def test_its_schema_refuses_unknown_keys_and_covers_its_values(case: Case) -> None:
    schema = json.loads((directory(case) / "values.schema.json").read_text())
    defaults = yaml.safe_load((directory(case) / "values.yaml").read_text())
    assert schema["additionalProperties"] is False
    assert set(defaults) <= set(schema["properties"])
    assert not is_own(case) or not list(without_default(schema, defaults))
    for path, subschema in schemas(schema):
        # entries of lists may be objects of Kubernetes or of the service's own configuration
        if is_own(case) and "properties" in subschema and "/items" not in path:
            assert "additionalProperties" in subschema, f"{path} takes unknown keys"
    values = case.release.values(case.state)
    done = helm(case, {**values, "mistyped": 1}, "template", case.release.name)
    assert done.returncode != 0
    assert "mistyped" in done.stderr


@every
def test_images_are_those_of_the_site_by_digest(case: Case) -> None:
    pushed = {str(reference) for reference in case.state.images.images.values()}
    for pod in pods(objects(case.release.name)):
        assert {container["image"] for container in containers(pod)} <= pushed


@every
def test_pods_run_without_rights(case: Case) -> None:
    own = case.own_namespace
    all_pods = list(pods(objects(case.release.name)))
    upstream = any(isinstance(need, UpstreamChart) for need in case.service.needs(case.service.of(case.state.site)))
    assert all_pods or upstream or case.release.chart != case.service.name
    for pod in all_pods:
        spec = pod["spec"]
        general = spec.get("securityContext", {})
        restricted = own is None or own.pod_security == "restricted"
        if restricted:
            assert not {"hostNetwork", "hostPID", "hostIPC"} & {key for key, value in spec.items() if value}
            kinds = {next(iter(volume.keys() - {"name"})) for volume in spec.get("volumes", [])}
            assert kinds <= {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI"}
        for container in containers(pod):
            context = {**general, **container.get("securityContext", {})}
            where = f"{case.release.name}: {container['name']}"
            assert not restricted or context.get("runAsNonRoot") is True, where
            assert not restricted or context.get("seccompProfile", {}).get("type") == "RuntimeDefault", where
            assert context.get("readOnlyRootFilesystem") is True, where
            assert context.get("allowPrivilegeEscalation") is False, where
            assert context.get("capabilities") == {"drop": ["ALL"]}, where
            resources = container.get("resources", {})
            assert not is_own(case) or resources.get("requests", {}).keys() >= {"cpu", "memory"}, where
            assert not is_own(case) or resources.get("limits", {}).get("memory"), where


@every
def test_only_pods_with_rights_in_the_cluster_have_a_token(case: Case) -> None:
    items = objects(case.release.name)
    bound = {s["name"] for item in items if item["kind"].endswith("RoleBinding") for s in item["subjects"]}
    for pod in pods(items):
        if pod["spec"].get("serviceAccountName") not in bound:
            assert pod["spec"].get("automountServiceAccountToken") is False


@every
def test_pods_have_a_priority_that_the_service_needs(case: Case) -> None:
    needs = case.service.needs(case.service.of(case.state.site))
    levels = {need.level for need in needs if isinstance(need, Priority)}
    for pod in pods(objects(case.release.name)):
        assert pod["spec"].get("priorityClassName") in (levels if levels and is_own(case) else {*levels, None})


@every
def test_secrets_come_from_outside_and_change_the_pods(case: Case) -> None:
    items = objects(case.release.name)
    assert not is_own(case) or "Secret" not in {item["kind"] for item in items}
    if case.release.chart != case.service.name or not service_context(case.service, case.state).secret_data():
        return
    assert case.service.secret_name in json.dumps([pod["spec"] for pod in pods(items)])
    secrets = copy.deepcopy(case.state.secrets)
    assert isinstance(secrets, MadeUpSecrets)
    secrets.stored |= {name: f"{value} rotated" for name, value in secrets.stored.items() if name != FINGERPRINT_KEY}
    rotated = case.release.values(replace(case.state, secrets=secrets))
    assert list(pods(template(case, rotated))) != list(pods(items))


@every
def test_each_pod_is_closed_by_a_network_policy(case: Case) -> None:
    items = objects(case.release.name)
    if case.own_namespace is not None:
        return  # the namespace's own policy covers all its pods
    policies = [item["spec"] for item in items if item["kind"] == "NetworkPolicy"]
    for pod in pods(items):
        labels = pod["metadata"]["labels"]
        covering = [p for p in policies if p["podSelector"].get("matchLabels", {}).items() <= labels.items()]
        assert {kind for policy in covering for kind in policy["policyTypes"]} == {"Ingress", "Egress"}, labels


@every
def test_its_ingress_has_its_name_and_leads_to_its_pods(case: Case) -> None:
    items = objects(case.release.name)
    ingresses = [item["spec"] for item in items if item["kind"] == "Ingress"]
    rules = [rule for spec in ingresses for rule in spec["rules"]]
    names = [
        service for service in published(case.state.site) if service.key == case.service.key and case.release.address
    ]
    assert {rule["host"] for rule in rules} == {service.host for service in names}
    # the address at a name that services share has a path of this one
    paths = {(rule["host"], path["path"]) for rule in rules for path in rule["http"]["paths"]}
    assert {(service.host, service.path) for service in names if service.path != "/"} <= paths
    assert {spec["ingressClassName"] for spec in ingresses} <= {"traefik"}
    by_name = {item["metadata"]["name"]: item["spec"] for item in items if item["kind"] == "Service"}
    assert not [name for name, spec in by_name.items() if spec.get("type", "ClusterIP") != "ClusterIP"]
    templates = [pod["metadata"]["labels"] for pod in pods(items)]
    for path in (path for spec in ingresses for rule in spec["rules"] for path in rule["http"]["paths"]):
        backend = path["backend"]["service"]
        service = by_name[backend["name"]]
        (port,) = backend["port"].values()
        assert port in {value for entry in service["ports"] for value in (entry.get("name"), entry["port"])}
        assert [labels for labels in templates if service["selector"].items() <= labels.items()]


@every
def test_its_notes_show_how_to_try_it_and_where_to_look(case: Case, tmp_path: Path) -> None:
    if not (directory(case) / "templates" / "NOTES.txt").exists():
        pytest.skip("a chart without notes")
    # helm renders the notes only into a cluster: here they are a template like the others
    chart = tmp_path / case.release.chart
    shutil.copytree(directory(case), chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    template = 'kind: Notes\ntext: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(template)
    values = case.release.values(case.state)
    done = helm(case, values, "template", case.release.name, "--show-only", "templates/notes.yaml", chart=chart)
    assert done.returncode == 0, done.stderr
    notes = yaml.safe_load(done.stdout)["text"]
    if case.release.address:
        assert "Try it:" in notes
        assert f"kubectl -n {case.release.namespace}" in notes


def define(case: Case, api_server: ApiServer, file: Path) -> None:
    """Custom resources of the ingress controller, and of another project's chart as far as they are recorded."""
    api_server.define(INGRESS_KINDS)
    for need in case.service.needs(case.service.of(case.state.site)):
        if isinstance(need, UpstreamChart):
            recorded = json.loads((RECORDED / f"{need.chart}.json").read_text())
            file.write_text(yaml.safe_dump_all(recorded.get("customResources", [])))
            api_server.define(file)


@every
def test_a_real_api_server_takes_its_objects_without_a_warning(
    case: Case, api_server: ApiServer, tmp_path: Path
) -> None:
    define(case, api_server, tmp_path / "definitions.yaml")
    own = case.own_namespace
    namespace = api_server.namespace(f"check-{case.release.name}", own.pod_security if own else "restricted")
    # those of a tenant's namespace as if the check's were the tenant's
    own_names = {None, *(tenant.name for tenant in case.state.site.platform.tenants)}
    items = copy.deepcopy(objects(case.release.name))
    inside = [item for item in items if item["metadata"].pop("namespace", None) in own_names]
    done = api_server.dry_run(namespace, yaml.safe_dump_all(inside))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_api_server_would_warn(api_server: ApiServer) -> None:
    namespace = api_server.namespace("check-warnings")
    text = yaml.safe_dump_all(objects("ml-hub"))
    weakened = api_server.dry_run(namespace, text.replace("runAsNonRoot: true", "runAsNonRoot: false"))
    assert "would violate PodSecurity" in weakened.stderr
    misspelt = api_server.dry_run(namespace, text.replace("replicas:", "replica:"))
    assert "unknown field" in misspelt.stderr


def test_every_service_is_covered() -> None:
    assert {case.service.name for case in CASES} == {service.name for service in services()}
