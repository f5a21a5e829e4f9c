"""Nodes with real GPUs on a Debian whose containerd cannot give them to pods: refused before there are instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site_file.inventories import find_site
from strata.site_file.problems import Problem

IMAGE = '    - {name: debian-13, distribution: debian, release: "13"}\n'
OLD = IMAGE.replace("13", "12")
GPU_NODE = "{name: gpu-worker-1, flavor: gpu.v100.1, image: debian-13"


@pytest.fixture
def problems(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> Callable[..., Sequence[Problem]]:
    """Problems of campus, edited."""

    def of(*edits: tuple[str, str], text: str | None = None) -> Sequence[Problem]:
        return problems_of(site_file(*edits, text=text or find_site("campus").read_text()))

    return of


def test_a_gpu_node_on_debian_12_is_refused(problems: Callable[..., Sequence[Problem]]) -> None:
    old = find_site("campus").read_text().replace("debian-13", "debian-12").replace('"13"', '"12"')
    (problem,) = problems(text=old)
    assert problem.key == "cloud.instances[6].image"
    assert "is Debian 12, whose containerd has no Container Device Interface" in problem.why
    assert "the v100 of gpu-worker-1" in problem.why
    assert problem.fix == 'an image with release: "13" in cloud.images; or installer: kubespray'
    (problem,) = problems((OLD, OLD + IMAGE), text=old)
    assert problem.fix == "image: debian-13; or installer: kubespray"
    assert problems((OLD, OLD + IMAGE), (GPU_NODE.replace("13", "12"), GPU_NODE), text=old) == ()
    kubespray = ("cluster: {name: campus}", "cluster: {name: campus, installer: kubespray, datastore: etcd}")
    assert not any(problem.key.endswith(".image") for problem in problems(kubespray, text=old))


def test_gpus_without_hardware_need_no_driver(problems: Callable[..., Sequence[Problem]]) -> None:
    old = find_site("campus").read_text().replace("debian-13", "debian-12").replace('"13"', '"12"')
    built_in = "cluster: {name: campus, gpu_nodes: {device_plugin: built-in}}"
    assert problems(("cluster: {name: campus}", built_in), text=old) == ()
