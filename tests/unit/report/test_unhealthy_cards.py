"""What status states of cards that a device plugin reports as broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strata.layers import Layer
from strata.observe import ClusterFacts, Observation, cluster
from strata.observe.status import site_status
from strata.site.context import SiteContext

Node = dict[str, Any]


def node(name: str, capacity: dict[str, str], allocatable: dict[str, str]) -> Node:
    """As the API server has it; `memory` differs on every node, because the kubelet keeps some for itself."""
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": {"memory": "4Gi", **capacity},
        "allocatable": {"memory": "3Gi", **allocatable},
    }
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


@pytest.fixture
def answered(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ClusterFacts]:
    def see(*nodes: Node) -> ClusterFacts:
        monkeypatch.setattr(cluster, "kubectl_json", lambda *_, **__: {"items": list(nodes)})
        return cluster.observe_cluster(context)

    return see


def test_a_broken_card_has_a_line(
    context: SiteContext, answered: Callable[..., ClusterFacts], running: Callable[..., Observation]
) -> None:
    facts = answered(
        node("control-1", {}, {}),
        node("worker-1", {"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": "4"}),
        node("gpu-worker-1", {"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}),
    )
    assert facts.cards["gpu-worker-1"] == {"nvidia.com/gpu": 1}
    seen = running().model_copy(update={"cluster": facts})
    (line,) = (row for row in site_status(context, seen) if not row.healthy)
    assert (line.layer, line.object, line.wanted, line.found) == (
        Layer.CLUSTER,
        "node gpu-worker-1: nvidia.com/gpu",
        "healthy",
        "1 unhealthy, 1 allocatable",
    )


def test_a_node_that_lost_its_only_card_has_one(answered: Callable[..., ClusterFacts]) -> None:
    facts = answered(node("gpu-worker-1", {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "0"}))
    assert facts.unhealthy == {"gpu-worker-1": {"nvidia.com/gpu": 1}}


def test_healthy_cards_have_none(context: SiteContext, running: Callable[..., Observation]) -> None:
    assert all(line.healthy for line in site_status(context, running()))
