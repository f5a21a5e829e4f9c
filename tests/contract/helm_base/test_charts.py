"""The charts of the platform itself, judged by the real helm."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.site.paths import REPOSITORY

HERE = Path(__file__).parent
HELM = Path(sys.executable).parent / "helm"
CHARTS = ("cluster-base", "namespace", "shared-volumes", "tenant")
ADMISSION = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
CLUSTER_WIDE = {"Namespace", "StorageClass", "PriorityClass", "RuntimeClass", "PersistentVolume", *ADMISSION}


def helm(*arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HELM), *arguments, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )


def values_of(chart: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((HERE / "values" / f"{chart}.yaml").read_text())
    return values


def template(chart: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return helm("template", "check", str(REPOSITORY / "helm" / chart), "--namespace", "strata-system", values=values)


def rendered(chart: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    done = template(chart, values_of(chart) if values is None else values)
    assert done.returncode == 0, done.stderr
    documents = [d for d in yaml.safe_load_all(done.stdout) if d]
    return sorted(documents, key=lambda d: (d["kind"], d["metadata"]["name"]))


@pytest.mark.parametrize("chart", CHARTS)
def test_lint(chart: str) -> None:
    done = helm("lint", "--strict", str(REPOSITORY / "helm" / chart), values=values_of(chart))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("chart", CHARTS)
def test_manifests_are_those_of_the_snapshot(chart: str) -> None:
    """`STRATA_UPDATE_SNAPSHOTS=1` writes them again; read the difference before it is committed."""
    snapshot = HERE / "snapshots" / f"{chart}.yaml"
    text = yaml.safe_dump_all(rendered(chart), sort_keys=True)
    if os.environ.get("STRATA_UPDATE_SNAPSHOTS"):
        snapshot.write_text(text)
    assert text == snapshot.read_text()


@pytest.mark.parametrize("chart", CHARTS)
def test_objects_have_a_place_and_labels(chart: str) -> None:
    for manifest in rendered(chart):
        metadata = manifest["metadata"]
        assert ("namespace" in metadata) == (manifest["kind"] not in CLUSTER_WIDE), manifest["kind"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "strata"


def test_the_device_plugin_is_pinned_and_confined() -> None:
    daemon_set = next(d for d in rendered("cluster-base") if d["kind"] == "DaemonSet")
    pod = daemon_set["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert re.fullmatch(r"[^@]+@sha256:[0-9a-f]{64}", container["image"])
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert "privileged" not in container["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {"strata.dev/pool": "gpu"}


def test_the_device_plugin_can_be_left_out() -> None:
    left = {"devicePlugin": {"enabled": False}}
    objects = rendered("cluster-base", left)
    assert {d["kind"] for d in objects} == {"StorageClass", "PriorityClass", "NetworkPolicy", *ADMISSION}
    assert [d["metadata"]["name"] for d in objects if d["kind"] == "NetworkPolicy"] == ["check-dns"]
    objects = rendered("cluster-base", {**left, "networkPolicies": {"enabled": False}})
    assert {d["kind"] for d in objects} == {"StorageClass", "PriorityClass", *ADMISSION}


def test_dns_may_reach_the_api_servers_alone() -> None:
    servers = {"networks": ["10.77.0.12/32"], "port": 6443}
    objects = rendered(
        "cluster-base", {**values_of("cluster-base"), "networkPolicies": {"enabled": True, "apiServer": servers}}
    )
    policy = next(d for d in objects if d["metadata"]["name"] == "check-dns")
    assert policy["spec"]["egress"][0] == {
        "ports": [{"port": 6443, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "10.77.0.12/32"}}],
    }


def test_the_device_plugins_configuration_is_what_it_reads() -> None:
    config = next(d for d in rendered("cluster-base") if d["kind"] == "ConfigMap")
    assert json.loads(config["data"]["config.json"]) == {
        "resources": values_of("cluster-base")["devicePlugin"]["resources"]
    }


def test_a_tenant_may_not_use_what_it_was_not_given() -> None:
    quota = next(d for d in rendered("tenant") if (d["kind"], d["metadata"]["name"]) == ("ResourceQuota", "research"))
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "1"
    assert quota["spec"]["hard"]["requests.amd.com/fpga-u50"] == "0"


def test_a_namespaces_reader_lists_nodes_and_pods_and_nothing_else() -> None:
    assert not [d for d in rendered("namespace") if d["kind"].startswith("ClusterRole")]
    by_kind = {d["kind"]: d for d in rendered("namespace", {**values_of("namespace"), "reader": "hub"})}
    assert by_kind["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    binding = by_kind["ClusterRoleBinding"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "hub", "namespace": "notebooks"}]
    assert binding["roleRef"]["name"] == by_kind["ClusterRole"]["metadata"]["name"] == "strata-notebooks-hub"


def test_network_policies_can_be_left_out() -> None:
    values = values_of("tenant")
    values["networkPolicy"] = {"enabled": False, "egress": []}
    assert "NetworkPolicy" not in {d["kind"] for d in rendered("tenant", values)}


WRONG: list[tuple[str, tuple[str | int, ...], object, str]] = [
    ("cluster-base", ("devicePlugn",), {}, "devicePlugn"),
    ("cluster-base", ("devicePlugin", "image", "digest"), "latest", "digest"),
    ("cluster-base", ("devicePlugin", "image", "tag"), "v1", "tag"),
    ("cluster-base", ("devicePlugin", "image", "repository"), "", "repository"),
    ("cluster-base", ("devicePlugin", "resources", 0, "devices", 0, "vendor"), "0x10de", "vendor"),
    ("cluster-base", ("devicePlugin", "resources"), [], "resources"),
    ("cluster-base", ("localVolumes", 0, "size"), "10 GB", "size"),
    ("cluster-base", ("storageClasses", 0, "reclaimPolicy"), "Keep", "reclaimPolicy"),
    ("tenant", ("namespace",), "Research", "namespace"),
    ("tenant", ("namespace",), "", "namespace"),
    ("tenant", ("quota", "memory"), "16GB", "memory"),
    ("tenant", ("quota", "accelerators", "nvidia.com/gpu"), "one", "nvidia.com"),
    ("tenant", ("quota", "accelerators", "gpu"), 1, "gpu"),
    ("tenant", ("members", 0, "kind"), "Team", "kind"),
    ("tenant", ("networkPolicy", "egress", 0), "everything", "egress"),
    ("tenant", ("podSecurity",), "strict", "podSecurity"),
    ("namespace", ("podSecurity",), "strict", "podSecurity"),
    ("namespace", ("namespace",), "", "namespace"),
]


@pytest.mark.parametrize(("chart", "path", "value", "named"), WRONG, ids=[f"{c}-{p[-1]}-{v}" for c, p, v, _ in WRONG])
def test_wrong_values_are_refused_by_name(chart: str, path: tuple[str | int, ...], value: object, named: str) -> None:
    values = copy.deepcopy(values_of(chart))
    place: Any = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    done = template(chart, values)
    assert done.returncode != 0
    assert named in done.stderr


def objects_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, value in schema.items():
            yield from objects_of(value, f"{path}/{key}")


@pytest.mark.parametrize("chart", CHARTS)
def test_no_object_takes_unknown_keys(chart: str) -> None:
    schema = json.loads((REPOSITORY / "helm" / chart / "values.schema.json").read_text())
    for path, subschema in objects_of(schema):
        if path != "/properties/global":
            assert "additionalProperties" in subschema, path
            assert subschema["additionalProperties"] is not True, path


@pytest.mark.parametrize("chart", CHARTS)
def test_templates_are_pure(chart: str) -> None:
    """The same values give the same manifests, on every machine and at any time."""
    for file in (REPOSITORY / "helm" / chart / "templates").iterdir():
        actions = " ".join(re.findall(r"\{\{.*?\}\}", file.read_text(), re.DOTALL))
        assert not re.findall(r"\b(lookup|rand\w+|gen[A-Z]\w+|uuidv4|now)\b", actions), file.name


@pytest.mark.parametrize("chart", CHARTS)
def test_notes_show_how_to_look_for_a_fault(chart: str) -> None:
    notes = (REPOSITORY / "helm" / chart / "templates" / "NOTES.txt").read_text()
    assert "kubectl" in notes
