"""Pools of GPU nodes: what is refused, and how many pods their GPUs offer room for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.gpu_nodes import POOL_LABEL, largest_request, node_labels, offered
from strata.models.site import Site
from strata.site_file.loader import load_site
from strata.site_file.problems import Problem

CARDS: dict[str, dict[str, int]] = {"a": {"v100": 2}, "b": {"a100": 2}, "c": {"u50": 1, "t4": 1}, "d": {"u50": 2}}
Pool = dict[str, Any]


def site_text(pools: Sequence[Pool], quota: Mapping[str, int] | None = None) -> str:
    """A site of machines, one per entry of CARDS, as JSON, which is YAML."""
    roles = ["kube_node", "gpu_node"]
    nodes = [
        {"name": name, "address": f"192.0.2.{index}", "roles": roles, "accelerators": cards}
        for index, (name, cards) in enumerate(CARDS.items(), start=2)
    ]
    control = {"name": "control", "address": "192.0.2.1", "roles": ["kube_control_plane", "load_balancer", "registry"]}
    tenants = [{"name": "lab", "quota": {"cpu": 4, "memory": "8 GiB", "accelerators": quota}}] if quota else []
    return json.dumps(
        {
            "name": "metal",
            "domain": "metal.example.org",
            "access": {"ssh": ["192.0.2.1/32"]},
            "hosts": {"machines": [control, *nodes]},
            "cluster": {"name": "metal", "datastore": "etcd", "gpu_nodes": {"pools": list(pools)}},
            "platform": {"tenants": tenants},
        },
        indent=1,
    )


def pool(nodes: str, name: str = "shared", **sharing: object) -> Pool:
    """A pool of nodes, each named by a letter."""
    return {"name": name, "nodes": list(nodes), "sharing": sharing}


AT = "cluster.gpu_nodes.pools[0]"
MISTAKES: dict[str, tuple[list[Pool], str, str, str]] = {
    "both": ([pool("a", mps=2, time_slicing=2)], f"{AT}.sharing.mps", "excludes time_slicing", "one of the two"),
    "MPS of an instance": ([pool("b", mps=2, mig="1g.5gb")], f"{AT}.sharing.mps", "excludes mig", "time_slicing"),
    "one pod": ([pool("a", time_slicing=1)], f"{AT}.sharing.time_slicing", "at least 2", ""),
    "no MIG": ([pool("ab", mig="1g.5gb")], f"{AT}.sharing.mig", "v100 (a: NVIDIA Tesla V100", "a pool without a"),
    "another card's profile": ([pool("b", mig="1g.6gb")], f"{AT}.sharing.mig", "no such MIG profile", "1g.5gb"),
    "too many for MPS": ([pool("a", mps=17)], f"{AT}.sharing.mps", "MPS serves 16 pods per v100", "mps: 16"),
    "unknown node": ([pool("e", time_slicing=2)], f"{AT}.nodes[0]", "not a host with the role gpu_node", "a"),
    "node of two pools": (
        [pool("a", time_slicing=2), pool("a", "other", mps=2)],
        "cluster.gpu_nodes.pools[1].nodes[0]",
        "duplicate: a",
        "remove",
    ),
    "name of two pools": (
        [pool("a", time_slicing=2), pool("b", time_slicing=3)],
        "cluster.gpu_nodes.pools[1].name",
        "duplicate: shared",
        "another",
    ),
    "name of the rest": ([pool("a", "default", mps=2)], f"{AT}.name", "nodes of no pool", "another name"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_pool_that_cannot_be_is_refused(
    case: str, tmp_path: Path, problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    pools, key, why, fix = MISTAKES[case]
    (tmp_path / "site.yaml").write_text(site_text(pools))
    (problem,) = problems_of(tmp_path / "site.yaml")
    assert problem.key == key
    assert why in str(problem)
    assert fix in str(problem.fix)


def test_the_lab_cannot_share(site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]) -> None:
    pools = "pools: [{name: shared, nodes: [gpu-worker-1], sharing: {time_slicing: 2}}]"
    (problem,) = problems_of(site_file(("  gpu_nodes:\n", f"  gpu_nodes:\n    {pools}\n")))
    assert problem.key == "cluster.gpu_nodes.pools"


def site_with(*pools: Pool, tmp_path: Path, quota: Mapping[str, int] | None = None) -> Site:
    (tmp_path / "site.yaml").write_text(site_text(pools, quota))
    return load_site(tmp_path / "site.yaml")


def test_nodes_offer_a_share_for_each_pod(tmp_path: Path) -> None:
    site = site_with(
        pool("a", "slices", time_slicing=4),
        pool("b", "instances", mig="3g.20gb", time_slicing=2),
        pool("cd", "mps", mps=3),
        tmp_path=tmp_path,
        quota={"v100": 8, "a100": 8},
    )
    assert offered(site) == {"a": {"v100": 8}, "b": {"a100": 8}, "c": {"u50": 1, "t4": 3}, "d": {"u50": 2}}
    # two shares of one GPU are no more than one; other cards are not shared
    assert [largest_request(site, *pair) for pair in (("a", "v100"), ("c", "t4"), ("d", "u50"))] == [1, 1, 2]
    assert node_labels(site, CARDS["a"], "a")[POOL_LABEL] == "slices"


def test_instances_alone_can_be_requested_together(tmp_path: Path) -> None:
    site = site_with(pool("b", mig="1g.5gb"), tmp_path=tmp_path)
    assert largest_request(site, "b", "a100") == offered(site)["b"]["a100"] == 14
    assert POOL_LABEL not in node_labels(site, CARDS["a"], "a")
    assert POOL_LABEL not in node_labels(site, CARDS["b"])


def test_profiles_fit_into_the_memory_and_the_slices_of_their_card() -> None:
    for card in CATALOGUE.values():
        for profile, count in card.mig_profiles.items():
            slices, _, memory = profile.removesuffix("gb").partition("g.")
            assert count * int(slices) <= (4 if card.kind == "a30" else 7), f"{card.kind}: {profile}"
            assert count * int(memory) * 10**9 <= card.memory.bytes * 1.01, f"{card.kind}: {profile}"
