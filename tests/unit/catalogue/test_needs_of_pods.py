"""What pods are given: priority and accelerators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
import yaml

from strata.catalogue.needs import Accelerators
from strata.catalogue.needs.priority import Level
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

from ..platform.test_values import SITES


def test_the_classes_are_those_of_the_chart() -> None:
    classes = yaml.safe_load((REPOSITORY / "helm/cluster-base/values.yaml").read_text())["priorityClasses"]
    assert [priority_class["name"] for priority_class in classes] == list(get_args(Level))
    values = [priority_class["value"] for priority_class in classes]
    assert values == sorted(values, reverse=True)
    assert [priority_class.get("preemptionPolicy") for priority_class in classes] == [None, None, "Never"]


@pytest.mark.parametrize(
    ("site", "need", "resource", "label"),
    [
        ("lab", Accelerators(), "nvidia.com/gpu", {}),
        ("lab", Accelerators(1, "v100"), "nvidia.com/gpu", {"strata.dev/accelerator.v100": "true"}),
        ("tacc", Accelerators(2), "nvidia.com/gpu", {}),
        ("nautilus", Accelerators(8, "gtx1080ti"), "nvidia.com/gpu", {"strata.dev/accelerator.gtx1080ti": "true"}),
        ("cnaf", Accelerators(1, "u250"), "amd.com/fpga-u250", {"strata.dev/accelerator.u250": "true"}),
    ],
)
def test_accelerators(site: str, need: Accelerators, resource: str, label: dict[str, str]) -> None:
    loaded = load_site(SITES[site])
    assert loaded.cluster is not None
    assert list(need.findings(loaded, ())) == []
    access = need.provide(cast("Any", SimpleNamespace(site=loaded)))
    assert (access.resource, access.count) == (resource, need.count)
    assert access.node_selector == {**loaded.cluster.gpu_nodes.labels, **label}
    assert [t["key"] for t in access.tolerations] == [t.partition("=")[0] for t in loaded.cluster.gpu_nodes.taints]


@pytest.mark.parametrize(
    ("need", "why"),
    [
        (Accelerators(1, "a100"), "1 × a100 on one node"),
        (Accelerators(2), "2 × GPU on one node"),
        (Accelerators(1, "u50"), "u50"),
    ],
)
def test_what_the_site_has_not(need: Accelerators, why: str) -> None:
    (finding,) = need.findings(load_site(find_site("lab")), ("platform", "services", "x"))
    assert why in finding.why
    assert "role gpu_node" in finding.fix
