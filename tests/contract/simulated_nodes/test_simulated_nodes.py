"""Simulated nodes: the real KWOK at a real API server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata.errors import UserError
from strata.progress import Silent
from strata.toolchain import ensure
from strata_bench.api_server import ApiServer
from strata_bench.simulated_nodes import LABEL, TOOL, Cluster, Simulation, simulated_nodes
from strata_bench.waiting import eventually

pytestmark = pytest.mark.nightly
"""Without caches, KWOK alone takes three minutes to build, and only `scripts/bench` uses it."""

NAME = "simulated"
TAINT = {"key": "example.org/dedicated", "value": "simulated", "effect": "NoSchedule"}
ADDRESS = "10.244.7.7"
SIMULATION = Simulation(NAME, 2, TAINT, {"component": "server"}, ADDRESS)
SECONDS = 60


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer) -> Cluster:
    """Skips where KWOK is not in the cache and cannot be built."""
    try:
        ensure([TOOL], Silent())
    except UserError as error:
        pytest.skip(f"no {TOOL} here: {error}")
    return Cluster(api_server.kubectl, api_server.kubeconfig)


@pytest.fixture(scope="module")
def nodes(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with simulated_nodes(cluster, SIMULATION, tmp_path_factory.mktemp("kwok"), Silent()):
        yield


def create(cluster: Cluster, directory: Path, name: str, labels: dict[str, str]) -> None:
    """A pod on the second node, as the scheduler would place it."""
    container = {"image": "registry.example.org/none:1"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "nodeName": f"{NAME}-1",
            "initContainers": [{"name": "downloads", **container}],
            "containers": [{"name": "notebook", **container}],
        },
    }
    file = directory / f"{name}.json"
    file.write_text(json.dumps(pod))
    cluster.kubectl("create", f"--filename={file}")


def status(cluster: Cluster, name: str) -> dict[str, Any]:
    """Of a pod."""
    current: dict[str, Any] = json.loads(cluster.kubectl("get", "pod", name, "--output=json"))["status"]
    return current


@pytest.mark.usefixtures("nodes")
def test_nodes_are_ready_and_tainted(cluster: Cluster) -> None:
    nodes = json.loads(cluster.kubectl("get", "nodes", f"--selector={LABEL}={NAME}", "--output=json"))["items"]
    assert [node["metadata"]["name"] for node in nodes] == [f"{NAME}-0", f"{NAME}-1"]
    for node in nodes:
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        assert [{key: taint.get(key) for key in TAINT} for taint in node["spec"]["taints"]] == [TAINT]
        assert node["status"]["allocatable"]["pods"] == "110"


@pytest.mark.usefixtures("nodes")
def test_a_pod_is_ready_at_the_address_and_ends(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, tmp_path, "server-1", {"component": "server"})
    eventually(lambda: status(cluster, "server-1")["phase"] == "Running", SECONDS, "the pod runs")
    pod_status = status(cluster, "server-1")
    assert (pod_status["podIP"], pod_status["podIPs"]) == (ADDRESS, [{"ip": ADDRESS}])
    assert {c["type"]: c["status"] for c in pod_status["conditions"]}["Ready"] == "True"
    assert [(container["name"], container["ready"]) for container in pod_status["containerStatuses"]] == [
        ("notebook", True)
    ]
    assert pod_status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    # without --force: KWOK ends it, as a kubelet does
    cluster.kubectl("delete", "pod", "server-1", f"--timeout={SECONDS}s")
    assert not cluster.kubectl("get", "pod", "server-1", "--ignore-not-found")


@pytest.mark.usefixtures("nodes")
def test_other_pods_stay_pending(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, tmp_path, "other", {"component": "puller"})
    create(cluster, tmp_path, "server-2", {"component": "server"})
    eventually(lambda: status(cluster, "server-2")["phase"] == "Running", SECONDS, "the pod runs")
    assert status(cluster, "other")["phase"] == "Pending"


def test_nothing_is_left(cluster: Cluster, tmp_path: Path) -> None:
    """Neither of a run that ends early nor of one before it that was killed."""
    simulation = Simulation("killed", 1, TAINT, {"component": "server"}, ADDRESS)
    before = children()
    killed = tmp_path / "killed.json"
    killed.write_text(json.dumps(simulation.nodes[0]))
    cluster.kubectl("create", f"--filename={killed}")
    with pytest.raises(KeyboardInterrupt):
        interrupted(cluster, simulation, tmp_path)
    assert "killed" not in cluster.kubectl("get", "nodes", "--output=name")
    assert children() == before


def interrupted(cluster: Cluster, simulation: Simulation, directory: Path) -> None:
    """Ctrl-C while the nodes are there."""
    with simulated_nodes(cluster, simulation, directory, Silent()):
        raise KeyboardInterrupt


def children() -> set[str]:
    """Process IDs of this process's children."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
