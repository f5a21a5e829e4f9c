"""Which device plugin offers which accelerators."""

from __future__ import annotations

from typing import Any

import pytest

from strata.models.site import Site
from strata.platform import cluster_base
from strata.platform.nvidia_device_plugin import built_in_kinds, nvidia_kinds
from strata.platform.releases import releases
from strata.site_file.loader import load_site

from .test_values import IMAGES, SITES


def site_with(cards: dict[str, int], **marks: str) -> Site:
    node = {"name": "gpu-1", "address": "192.0.2.2", "roles": ["kube_node", "gpu_node"], "accelerators": cards}
    cluster = {"name": "metal", "datastore": "etcd", "gpu_nodes": marks}
    content: dict[str, Any] = {"name": "metal", "domain": "example.org", "access": {"ssh": ["192.0.2.1/32"]}}
    return Site.model_validate({**content, "hosts": {"machines": [node]}, "cluster": cluster})


@pytest.mark.parametrize(
    ("marks", "nvidia", "built_in"),
    [
        ({}, ["v100"], ["u50"]),
        ({"device_plugin": "nvidia"}, ["v100"], ["u50"]),
        ({"device_plugin": "built-in"}, [], ["u50", "v100"]),
        ({"device_plugin": "none"}, [], ["u50"]),
    ],
)
def test_each_accelerator_has_one_plugin(marks: dict[str, str], nvidia: list[str], built_in: list[str]) -> None:
    site = site_with({"v100": 2, "u50": 1}, **marks)
    assert (nvidia_kinds(site), built_in_kinds(site)) == (nvidia, built_in)
    assert site.cluster is not None
    values = cluster_base.values(site, site.cluster, None, IMAGES.images)
    assert values["runtimeClasses"] == (["nvidia"] if nvidia else [])
    offered = {resource["name"] for resource in values["devicePlugin"]["resources"]}
    assert ("nvidia.com/gpu" in offered) == ("v100" in built_in)
    # its pods name a runtime class of cluster-base
    found_releases = [release.after for release in releases(site) if release.name == "nvidia-device-plugin"]
    assert found_releases == ([("cluster-base",)] if nvidia else [])


def test_the_lab_has_the_built_in_plugin_alone() -> None:
    lab = load_site(SITES["lab"])
    assert (nvidia_kinds(lab), built_in_kinds(lab)) == ([], ["v100"])
