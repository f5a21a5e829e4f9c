"""Nodes that exist in Kubernetes' API only, which KWOK plays: how a site scales, without the work of its nodes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from strata.errors import UserError
from strata.processes import bind_to_parent
from strata.progress import Progress
from strata.toolchain import ensure
from strata_bench.waiting import eventually

TOOL = "kwok"
ANNOTATION = "kwok.x-k8s.io/node"
LABEL = "strata.dev/simulated"
"""Of the nodes; its value is what they are for."""
READY_SECONDS = 60.0
END_SECONDS = 30.0
KEPT_LOG = 2000
NODE_STATUS = """
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
phase: Running
"""
POD_STATUS = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
podIP: ADDRESS
podIPs: [{ip: ADDRESS}]
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""


@dataclass(frozen=True)
class Cluster:
    """The cluster that gets the nodes.

    Args:
        kubectl: of its administrator; fails where kubectl does.
        kubeconfig: the same one's.
    """

    kubectl: Callable[..., str]
    kubeconfig: Path


@dataclass(frozen=True)
class Simulation:
    """What is simulated.

    Args:
        name: value of the nodes' label, and the beginning of their names.
        count: of nodes.
        taint: of the nodes, tolerated by the pods that are meant for them and by no others.
        pods: labels of the pods that run there; others, of DaemonSets for instance, stay pending.
        address: that each of these pods reports as its own.
    """

    name: str
    count: int
    taint: Mapping[str, str]
    pods: Mapping[str, str]
    address: str

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Manifests. They lack the label of the operating system, by which DaemonSets of Kubernetes pass them over."""
        resources = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": f"{self.name}-{number}",
                    "annotations": {ANNOTATION: "fake"},
                    "labels": {LABEL: self.name},
                },
                "spec": {"taints": [dict(self.taint)]},
                "status": {"allocatable": resources, "capacity": resources},
            }
            for number in range(self.count)
        ]

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What KWOK makes of nodes and pods."""
        status = POD_STATUS.replace("ADDRESS", json.dumps(self.address))
        alive, pending = _expression(".metadata.deletionTimestamp"), _expression(".status.phase", "Pending")
        not_ready = _expression('.status.conditions.[] | select(.type == "Ready") | .status', "True", operator="NotIn")
        return [
            _stage("node-ready", "Node", {"matchExpressions": [not_ready]}, {"statusTemplate": NODE_STATUS}),
            _stage(
                "pod-ready",
                "Pod",
                {"matchLabels": dict(self.pods), "matchExpressions": [alive, pending]},
                {"statusTemplate": status},
            ),
            _stage(
                "pod-deleted",
                "Pod",
                {"matchExpressions": [{**alive, "operator": "Exists"}]},
                {"finalizers": {"empty": True}, "delete": True},
            ),
        ]


def _stage(name: str, kind: str, selector: Mapping[str, Any], following: Mapping[str, Any]) -> dict[str, Any]:
    reference = {"apiGroup": "v1", "kind": kind}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {"resourceRef": reference, "selector": dict(selector), "next": dict(following)},
    }


def _expression(key: str, *values: str, operator: str = "") -> dict[str, Any]:
    if values:
        return {"key": key, "operator": operator or "In", "values": list(values)}
    return {"key": key, "operator": operator or "DoesNotExist"}


@contextmanager
def simulated_nodes(cluster: Cluster, simulation: Simulation, directory: Path, progress: Progress) -> Iterator[None]:
    """Nodes that are Ready. Afterwards they are gone, with their pods.

    Args:
        cluster: that gets them.
        simulation: what they are.
        directory: for KWOK's configuration and log.
        progress: receives status messages.

    Raises:
        UserError: KWOK is not available, or makes no nodes Ready.
    """
    program = ensure([TOOL], progress)[TOOL].path
    stages, log = directory / "kwok.yaml", directory / "kwok.log"
    stages.write_text(yaml.safe_dump_all(simulation.stages))
    manifests = directory / "nodes.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": simulation.nodes}))
    _remove(cluster, simulation)  # of an interrupted run
    command = [
        str(program), f"--kubeconfig={cluster.kubeconfig}", f"--config={stages}",
        f"--manage-nodes-with-label-selector={LABEL}={simulation.name}",
        # no port: nobody asks these nodes for logs
        "--node-port=0",
    ]  # fmt: skip
    with log.open("w") as stream:
        # a session of its own, as Ctrl-C must not end it before the pods are gone
        process = subprocess.Popen(bind_to_parent(command), stdout=stream, stderr=stream, start_new_session=True)
    try:
        cluster.kubectl("create", f"--filename={manifests}")
        begin = time.monotonic()
        while not _ready(cluster, simulation):
            if process.poll() is not None or time.monotonic() - begin > READY_SECONDS:
                said = log.read_text()[-KEPT_LOG:]
                raise UserError(f"benchmark: {TOOL} made no nodes Ready within {READY_SECONDS:.0f} s: {said}")
            time.sleep(0.2)
        for node in simulation.nodes:
            # without the taint of nodes that are not Ready, which new ones have until a controller looks again
            spec = json.dumps({"spec": node["spec"]})
            cluster.kubectl("patch", "node", node["metadata"]["name"], "--type=merge", f"--patch={spec}")
        yield
    finally:
        try:
            _remove(cluster, simulation)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()
            process.wait()


def _ready(cluster: Cluster, simulation: Simulation) -> bool:
    template = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    selector = f"--selector={LABEL}={simulation.name}"
    states = cluster.kubectl("get", "nodes", selector, f"--output=jsonpath={template}").split()
    return states == ["True"] * simulation.count


def _remove(cluster: Cluster, simulation: Simulation) -> None:
    """The nodes first: DaemonSets would replace their pods."""
    cluster.kubectl("delete", "nodes", f"--selector={LABEL}={simulation.name}", "--ignore-not-found")
    names = [str(node["metadata"]["name"]) for node in simulation.nodes]

    def gone() -> bool:
        left = ""
        for name in names:
            on_node = ("pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}")
            # without --force, only the node's kubelet would end them
            cluster.kubectl("delete", *on_node, "--force", "--grace-period=0", "--wait=false")
            left += cluster.kubectl("get", *on_node, "--output=name")
        return not left.strip()

    eventually(gone, END_SECONDS, f"no pods on the nodes of {simulation.name}")
