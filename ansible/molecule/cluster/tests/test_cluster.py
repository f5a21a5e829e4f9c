"""What the roles of the cluster layer promise, after both nodes were switched off and on."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from strata.site.outputs import ImageOutputs
from strata.toolchain import load_versions
from strata.verify import pods
from strata.verify.pods import Kubectl, PodRequest

if TYPE_CHECKING:
    from testinfra.host import Host

    from strata.site.context import SiteContext

CONTROL, WORKER = "control-1", "gpu-worker-1"
READY_SECONDS = 300
"""How long the cluster may take until it is up again after its nodes were switched on, in seconds."""

TOLERATE_ALL = [{"operator": "Exists"}]

# tries for a minute: name service, service addresses and routes come back one after the other
REACHES_THE_CLUSTER = """
import socket, time
end = time.monotonic() + 60
while True:
    try:
        address = socket.gethostbyname("kubernetes.default.svc.cluster.local")
        socket.create_connection((address, 443), timeout=3).close()
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.5)
print(address)
"""
ASKS_A_POD = """
import sys, time, urllib.request
end = time.monotonic() + 60
while True:
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=3).status)
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.5)
"""


@pytest.fixture(scope="session", autouse=True)
def _api_answers(kubectl: Kubectl) -> None:
    """Waits for the API server, which was switched off with its node."""
    end = time.monotonic() + READY_SECONDS
    while (said := kubectl("get", "--raw", "/readyz", "--request-timeout=5s", check=False)) != "ok":
        assert time.monotonic() < end, f"no API {READY_SECONDS} s after the nodes were switched on: {said}"
        time.sleep(1)


@pytest.fixture(scope="session")
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace that goes away with what is in it."""
    name = f"probe-{secrets.token_hex(3)}"
    kubectl("create", "namespace", name)
    # the controller manager makes it, and has just been started again
    kubectl("--namespace", name, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("node", [CONTROL, WORKER])
def test_pod_runs_and_finds_names_and_services(
    kubectl: Kubectl, namespace: str, images: ImageOutputs, context: SiteContext, node: str
) -> None:
    """Kubelet, runtime, registry, pod network, kube-proxy and CoreDNS of a node work after it was switched on."""
    request = PodRequest(
        f"on-{node}", images.images["pod-base"], ["python3", "-c", REACHES_THE_CLUSTER], node, None, TOLERATE_ALL
    )
    output, ran_on = pods.run(kubectl, namespace, request)
    assert ran_on == node
    assert context.site.cluster is not None
    assert ipaddress.ip_address(output.strip()) in context.site.cluster.service_network


@pytest.mark.parametrize(("server", "client"), [(CONTROL, WORKER), (WORKER, CONTROL)])
def test_pods_of_different_nodes_reach_each_other(
    kubectl: Kubectl, namespace: str, images: ImageOutputs, context: SiteContext, server: str, client: str
) -> None:
    image = images.images["pod-base"]
    answering = PodRequest(
        f"server-{server}", image, ["python3", "-m", "http.server", "8080"], server, None, TOLERATE_ALL
    )
    pods.create(kubectl, namespace, answering)
    try:
        kubectl("--namespace", namespace, "wait", "--for=condition=Ready", f"pod/{answering.name}", "--timeout=60s")
        address = pods.status(kubectl, namespace, answering.name)["status"]["podIP"]
        assert context.site.cluster is not None
        assert ipaddress.ip_address(address) in context.site.cluster.pod_network
        command = ["python3", "-c", ASKS_A_POD, f"http://{address}:8080/"]
        asking = PodRequest(f"client-{client}", image, command, client, None, TOLERATE_ALL)
        assert pods.run(kubectl, namespace, asking)[0].strip() == "200"
    finally:
        pods.delete(kubectl, namespace, answering.name)


def test_nodes_are_ready_and_marked(kubectl: Kubectl, context: SiteContext) -> None:
    nodes = {n["metadata"]["name"]: n for n in json.loads(kubectl("get", "nodes", "--output", "json"))["items"]}
    assert set(nodes) == {CONTROL, WORKER}
    taints: dict[str, set[str]] = {}
    for name, node in nodes.items():
        conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
        assert conditions["Ready"] == "True", name
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v" + load_versions().tools["kubelet"].version
        shown = node["spec"].get("taints", [])
        taints[name] = {t["key"] + (f"={t['value']}" if "value" in t else "") + f":{t['effect']}" for t in shown}
    assert context.site.cluster is not None
    marks = context.site.cluster.gpu_nodes
    assert taints == {CONTROL: {"node-role.kubernetes.io/control-plane:NoSchedule"}, WORKER: set(marks.taints)}
    assert marks.labels.items() <= nodes[WORKER]["metadata"]["labels"].items()
    assert not marks.labels.items() & nodes[CONTROL]["metadata"]["labels"].items()


def test_pods_without_toleration_stay_away(kubectl: Kubectl, namespace: str, images: ImageOutputs) -> None:
    plain = PodRequest("plain", images.images["pod-base"], ["true"])
    assert "untolerated taint" in pods.unschedulable_reason(kubectl, namespace, plain)


def test_objects_are_rows_in_postgresql(machine: Callable[[str], Host], namespace: str) -> None:
    query = "select name from kine where name like '/registry/namespaces/%%' and deleted = 0"
    answer = machine(CONTROL).check_output(f'psql --no-psqlrc -U postgres -d kine -Atc "{query}"')
    assert f"/registry/namespaces/{namespace}" in answer.split()


@pytest.mark.parametrize(("port", "path"), [(6443, "/api/v1/nodes"), (10250, "/pods")], ids=["API server", "kubelet"])
def test_strangers_are_refused(machine: Callable[[str], Host], context: SiteContext, port: int, path: str) -> None:
    """From the other machine, without a certificate or with an unknown token."""
    address = next(m.address for m in context.site.hosts.machines if m.name == CONTROL)
    for option in ("", "--header 'Authorization: Bearer unknown'"):
        command = f"curl --silent --insecure --output /dev/null --write-out '%{{http_code}}' {option}"
        assert machine(WORKER).check_output(f"{command} https://{address}:{port}{path}") in ("401", "403")


def test_secrets_of_the_cluster_are_private(machine: Callable[[str], Host], context: SiteContext) -> None:
    assert context.paths.kubeconfig.stat().st_mode & 0o077 == 0
    for name in (CONTROL, WORKER):
        host = machine(name)
        result = host.run("grep --recursive --files-with-matches 'PRIVATE KEY\\|client-key-data' /etc/kubernetes")
        files = result.stdout.split()
        assert files or name == WORKER
        for file in files:
            assert host.file(file).mode & 0o077 == 0, f"{name}: {file}"
    # the token that joined the worker
    assert not machine(WORKER).file("/etc/kubernetes/join").exists
    assert not machine(WORKER).file("/etc/kubernetes/bootstrap-kubelet.conf").exists


def test_tokens_for_joining_end_soon(kubectl: Kubectl) -> None:
    listing = kubectl(
        *("--namespace", "kube-system", "get", "secrets", "--output", "json"),
        *("--field-selector", "type=bootstrap.kubernetes.io/token"),
    )
    for secret in json.loads(listing)["items"]:
        text = base64.b64decode(secret["data"]["expiration"]).decode()
        left = datetime.datetime.fromisoformat(text) - datetime.datetime.now(datetime.UTC)
        assert left <= datetime.timedelta(minutes=10)
