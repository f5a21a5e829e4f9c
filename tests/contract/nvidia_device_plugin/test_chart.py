"""The values of NVIDIA's chart: against recorded names, and against the chart where it is in the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.models.site import Site
from strata.platform.nvidia_device_plugin import CHART, PLUGIN_IMAGE, values
from strata.toolchain import charts, load_versions

NAMES = Path(__file__).parent / "chart_values.json"
POOLS: dict[str, list[dict[str, Any]]] = {
    "whole": [],
    "shared": [{"name": "shared", "nodes": ["gpu-1"], "sharing": {"time_slicing": 4}}],
    "cut": [{"name": "cut", "nodes": ["gpu-1"], "sharing": {"mig": "1g.5gb"}}],
}
each = pytest.mark.parametrize("pools", POOLS)


def values_with(pools: str) -> dict[str, Any]:
    node = {"name": "gpu-1", "address": "192.0.2.2", "roles": ["kube_node", "gpu_node"], "accelerators": {"a100": 2}}
    cluster = {"name": "metal", "datastore": "etcd", "gpu_nodes": {"pools": POOLS[pools]}}
    content = {"name": "metal", "domain": "example.org", "access": {"ssh": ["192.0.2.1/32"]}, "cluster": cluster}
    site = Site.model_validate({**content, "hosts": {"machines": [node]}})
    assert site.cluster is not None
    return dict(values(site, site.cluster))


def names(tree: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Dotted names as deep as the record goes: two steps, three in node-feature-discovery's part."""
    for key, value in tree.items():
        here = (*path, key)
        yield ".".join(here)
        if (
            isinstance(value, dict)
            and len(here) < (3 if here[0] == "nfd" else 2)
            and key not in ("affinity", "resources")
        ):
            yield from names(value, here)


@each
def test_the_chart_knows_every_value(pools: str) -> None:
    assert set(names(values_with(pools))) - {"nfd.worker"} <= {*json.loads(NAMES.read_text())["values"], "nfd.image"}


def test_names_are_those_of_the_pinned_chart() -> None:
    assert json.loads(NAMES.read_text())["version"] == load_versions().charts[CHART].version


@each
def test_the_real_chart_makes_pods_for_the_nodes_of_the_site(pools: str) -> None:
    (chart,) = (c for c in charts.report() if c.name == CHART)
    if chart.path is None:
        pytest.skip(f"NVIDIA's chart is not in the cache: {chart.note}")
    helm = [
        str(Path(sys.executable).with_name("helm")),
        "template",
        CHART,
        str(chart.path),
        "--namespace",
        "kube-system",
    ]
    given = json.dumps(values_with(pools))
    done = subprocess.run([*helm, "--values", "-"], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    sets = {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet"}
    assert {CHART, f"{CHART}-gpu-feature-discovery", f"{CHART}-mps-control-daemon"} <= set(sets)
    for name, pod in sets.items():
        assert "strata.dev/accelerator.a100" in json.dumps(pod["affinity"]), name
        assert [toleration["key"] for toleration in pod["tolerations"]] == ["nvidia.com/gpu"], name
    pod = sets[CHART]
    main = next(container for container in pod["containers"] if container["name"] == "nvidia-device-plugin-ctr")
    environment = {variable["name"]: variable.get("value") for variable in main["env"]}
    assert pod["runtimeClassName"] == "nvidia"
    assert main["image"] == f"{PLUGIN_IMAGE}:{load_versions().charts[CHART].image_tags[PLUGIN_IMAGE]}"
    assert environment["DEVICE_LIST_STRATEGY"] == "cdi-cri"
    assert environment.get("MIG_STRATEGY") == (None if pools == "cut" else "none")
    assert ("CONFIG_FILE" in environment) == (pools != "whole")
    rights = main["securityContext"].get("capabilities", {})
    assert rights == ({"add": ["SYS_ADMIN"]} if pools == "cut" else {"drop": ["ALL"]})
    maps = [o["data"] for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == f"{CHART}-configs"]
    assert [sorted(config_map) for config_map in maps] == ([] if pools == "whole" else [sorted(["default", pools])])
