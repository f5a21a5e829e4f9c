"""How many accelerators of a profile are free, from nodes and pods as Kubernetes' API returns them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .image_code import run_code

GPU = "nvidia.com/gpu"
GIVE_WAY = "run batch jobs, which give way."
V100, A100 = {"strata.dev/accelerator.v100": "true"}, {"strata.dev/accelerator.a100": "true"}
ACCELERATORS = {"v100": {"resource": GPU, "nodeSelector": V100}, "a100": {"resource": GPU, "nodeSelector": A100}}
OVERRIDE = {"extra_resource_limits": {GPU: "1"}, "node_selector": V100}
PROFILE = {"slug": "v100", "description": "2 CPUs, 1 × v100.", "kubespawner_override": OVERRIDE}
CODE = """
import asyncio, json, sys
from types import SimpleNamespace
from strata_hub import free
given = json.load(sys.stdin)
calls = []
class Answer:
    def __init__(self, items): self.items, self.ok, self.status = items, given["status"] == 200, given["status"]
    async def read(self): return json.dumps({"items": self.items})
async def nodes(**options): calls.append("nodes"); return Answer(given["nodes"])
async def pods(field_selector, **options): calls.append(field_selector); return Answer(given["pods"])
async def main():
    api = SimpleNamespace(list_node=nodes, list_pod_for_all_namespaces=pods)
    of = free.with_free(lambda _: given["profiles"], given["accelerators"])
    pages = [await of(SimpleNamespace(api=api)) for _ in range(2)]
    assert pages[0] == pages[1]
    print(json.dumps({"descriptions": [profile["description"] for profile in pages[0]], "calls": calls}))
asyncio.run(main())
"""


def node(name: str, labels: dict[str, str], count: int, *, ready: str = "True", **spec: object) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    status = {"allocatable": {"cpu": "7500m", GPU: str(count)}, "conditions": conditions}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def pod(node: str | None, count: int, phase: str = "Running", priority: str = "interactive") -> dict[str, Any]:
    containers = [{"resources": {"limits": {GPU: str(count)}}}, {"resources": {"requests": {"cpu": "1"}}}]
    spec = {"containers": containers, "priorityClassName": priority, **({"nodeName": node} if node else {})}
    return {"metadata": {}, "spec": spec, "status": {"phase": phase}}


def shown(nodes: list[Any], pods: list[Any], *, status: int = 200, profiles: Any = (PROFILE,)) -> dict[str, list[str]]:
    given = {"nodes": nodes, "pods": pods, "status": status, "profiles": profiles, "accelerators": ACCELERATORS}
    done = run_code(CODE, text=json.dumps(given))
    assert done.returncode == 0, done.stderr
    output: dict[str, list[str]] = json.loads(done.stdout)
    return output


NODES = [node("a", V100, 4), node("b", V100, 2), node("c", A100, 8)]


@pytest.mark.parametrize(
    ("nodes", "pods", "text"),
    [
        (NODES, [], "v100: 6 of 6 free."),
        (NODES, [pod("a", 1), pod("b", 2, phase="Pending")], "v100: 3 of 6 free."),
        (NODES, [pod("c", 8), pod(None, 1), pod("a", 1, phase="Succeeded")], "v100: 6 of 6 free."),
        (NODES, [pod("a", 4), pod("b", 2, priority="batch")], f"v100: 0 of 6 free, 2 more {GIVE_WAY}"),
        ([node("a", V100, 4, unschedulable=True), node("b", V100, 2, ready="Unknown")], [], "v100: 0 of 0 free."),
        ([], [], "v100: 0 of 0 free."),
    ],
)  # fmt: skip
def test_free_are_those_of_nodes_that_no_pod_requests(nodes: list[Any], pods: list[Any], text: str) -> None:
    output = shown(nodes, pods)
    assert output["descriptions"] == [f"2 CPUs, 1 × v100. {text}"]
    assert output["calls"] == ["nodes", "status.phase!=Succeeded,status.phase!=Failed"], "read once for two pages"


def test_without_an_answer_free_ones_are_unknown() -> None:
    assert shown(NODES, [], status=403)["descriptions"] == ["2 CPUs, 1 × v100. v100: free ones unknown."]


def test_a_profile_without_accelerators_needs_no_answer() -> None:
    standard = {"slug": "standard", "description": "2 CPUs.", "kubespawner_override": {}}
    assert shown(NODES, [], profiles=[standard]) == {"descriptions": ["2 CPUs."], "calls": []}
