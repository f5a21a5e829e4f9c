"""NetworkPolicies hold between the pods of the running cluster, on one node and across nodes."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.toolchain import bin_directory
from strata.verify.pods import Kubectl, status
from strata.verify.waiting import settled
from strata_bench.waiting import eventually

pytestmark = pytest.mark.nightly

SECONDS = 60.0
"""How long a change may take until it holds; on an idle machine it is some tenths of a second."""
RESTART_SECONDS = 120.0
"""How long a pod may be out of kubectl's reach."""
SERVE = """
import socket, threading
def tcp(port):
    listening = socket.create_server(("", port))
    while True:
        connection = listening.accept()[0]
        threading.Thread(target=answer, args=(connection,), daemon=True).start()
def answer(connection):
    while connection.recv(100):
        connection.sendall(connection.getpeername()[0].encode())
def udp(port):
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("", port))
    while True:
        listening.sendto(*listening.recvfrom(100))
for port in (8080, 8081, 8082):
    threading.Thread(target=tcp, args=(port,)).start()
threading.Thread(target=udp, args=(8080,)).start()
"""
ASK = """
import socket, sys
address, port, protocol = sys.argv[1], int(sys.argv[2]), sys.argv[3]
try:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM) as client:
        client.settimeout(1.5)
        client.connect((address, port))
        if protocol == "UDP":
            client.sendall(b"ping")
            client.recv(100)
    print("open")
except OSError:
    print("closed")
"""
FIRST_WORDS = """
import socket, sys, time
for attempt in range(int(sys.argv[2])):
    try:
        socket.create_connection((sys.argv[1], 8080), 0.5).close()
        print("open at attempt", attempt)
        break
    except OSError:
        time.sleep(0.1)
else:
    print("closed")
"""
WHO = """
import socket, sys
client = socket.create_connection((sys.argv[1], 8080), 30)
client.sendall(b"who am I?")
print(client.recv(100).decode())
"""
STREAM = """
import socket, sys
client = socket.create_connection((sys.argv[1], 8080), 30)
print("connected", flush=True)
for line in sys.stdin:
    client.sendall(b"who am I?")
    print(client.recv(100).decode(), flush=True)
"""
NAMES = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
DNS = {"to": [NAMES], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
Rule = Mapping[str, Any]
Pods = Callable[[str], "Pod"]


@dataclass(frozen=True)
class Pod:
    """A running pod."""

    namespace: str
    name: str
    address: str


@dataclass(frozen=True)
class Cluster:
    """Two namespaces with a server and clients on two nodes."""

    kubectl: Kubectl
    image: str
    home: str
    other: str
    nodes: tuple[str, str]

    def pod(self, namespace: str, name: str) -> Pod:
        current = status(self.kubectl, namespace, name)
        return Pod(namespace, name, current["status"]["podIP"])

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
        self.kubectl("apply", "--filename", "-", input=text)

    def python(self, pod: Pod, code: str, *arguments: str) -> str:
        """What the code writes in the pod; nothing while the kubelet or the container runtime restarts."""
        command = ["--namespace", pod.namespace, "exec", pod.name, "--", "python3", "-c", code, *arguments]
        return str(self.kubectl(*command, check=False)).strip()

    def reaches(self, pod: Pod, address: str, port: int = 8080, protocol: str = "TCP") -> bool:
        outcome = settled(
            lambda: self.python(pod, ASK, address, str(port), protocol),
            lambda said: said in ("open", "closed"),
            RESTART_SECONDS,
        )
        assert outcome in ("open", "closed")
        return outcome == "open"

    def expect(self, expected: bool, pod: Pod, target: str | Pod, port: int = 8080, protocol: str = "TCP") -> None:
        address = target if isinstance(target, str) else target.address
        text = f"{pod.namespace}/{pod.name} {'reaches' if expected else 'is kept from'} {protocol} {address}:{port}"
        eventually(lambda: self.reaches(pod, address, port, protocol) is expected, SECONDS, text, pause=0)

    @contextlib.contextmanager
    def policy(self, spec: Mapping[str, Any], namespace: str | None = None) -> Iterator[str]:
        """A policy of the home namespace."""
        name, where = f"test-{secrets.token_hex(3)}", namespace or self.home
        kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
        self.apply({**kind, "metadata": {"name": name, "namespace": where}, "spec": spec})
        try:
            yield name
        finally:
            self.kubectl("--namespace", where, "delete", "networkpolicy", name, "--ignore-not-found")


def manifest(
    cluster: Cluster, namespace: str, name: str, code: Sequence[str], node: int, **spec: Any
) -> dict[str, Any]:
    """A pod that runs Python, on one of the two nodes."""
    ports = [{"name": "web", "containerPort": 8080}] if name == "server" else []
    probe = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}} if name == "server" else {}
    container = {"name": "test", "image": cluster.image, "command": ["python3", "-c", *code], "ports": ports, **probe}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"pod": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": cluster.nodes[node]},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            **spec,
        },
    }


@pytest.fixture(scope="module")
def cluster(kubectl: Kubectl, images: ImageOutputs) -> Iterator[Cluster]:
    """The pods `server`, `near` (same node) and `far` in both namespaces, and the Service `server` of the home one."""
    listed = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    # workers first
    listed.sort(key=lambda n: "node-role.kubernetes.io/control-plane" in n["metadata"]["labels"])
    nodes = [n["metadata"]["name"] for n in listed]
    if len(nodes) < 2:
        pytest.skip("the site has one node only")
    home, other = (f"strata-policies-{name}-{secrets.token_hex(3)}" for name in ("home", "other"))
    prepared = Cluster(kubectl, str(images.images["pod-base"]), home, other, (nodes[0], nodes[1]))
    sleep = ["import time; time.sleep(10**6)"]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "server"},
        "spec": {"selector": {"pod": "server"}, "type": "NodePort", "ports": [{"port": 80, "targetPort": "web"}]},
    }
    try:
        for namespace in (home, other):
            kubectl("create", "namespace", namespace)
            kubectl("label", "namespace", namespace, f"team={'home' if namespace == home else 'other'}")
            prepared.apply(
                manifest(prepared, namespace, "server", [SERVE], 0),
                manifest(prepared, namespace, "near", sleep, 0),
                manifest(prepared, namespace, "far", sleep, 1),
            )
            kubectl("--namespace", namespace, "create", "--filename", "-", input=json.dumps(service))
        for namespace in (home, other):
            wait = ("wait", "--for=condition=Ready", "--timeout=240s", "pod", "--all")
            kubectl("--namespace", namespace, *wait, timeout=300)
        yield prepared
    finally:
        kubectl("delete", "namespace", home, other, "--wait=false", "--ignore-not-found")


@pytest.fixture
def pods(cluster: Cluster) -> Pods:
    """`pods("near")` of the home namespace, `pods("other/near")` of the other one."""

    def find(name: str) -> Pod:
        where, _, pod = name.rpartition("/")
        return cluster.pod(cluster.other if where else cluster.home, pod)

    return find


SERVER = {"matchLabels": {"pod": "server"}}
CLIENTS = ("near", "far", "other/near", "other/far")

NOT_FAR = {
    "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    "podSelector": {"matchExpressions": [{"key": "pod", "operator": "NotIn", "values": ["far"]}]},
}
# what the policy lets in to port 8080 of the server, and from which of the four clients
INGRESS: dict[str, tuple[list[Rule], set[str]]] = {
    "nothing": ([], set()),
    "everything": ([{}], set(CLIENTS)),
    "pods of the namespace": ([{"from": [{"podSelector": {}}]}], {"near", "far"}),
    "pods by label": ([{"from": [{"podSelector": {"matchLabels": {"pod": "far"}}}]}], {"far"}),
    "a namespace": (
        [{"from": [{"namespaceSelector": {"matchLabels": {"team": "other"}}}]}],
        {"other/near", "other/far"},
    ),
    "pods by label of a namespace": ([{"from": [NOT_FAR]}], {"near", "other/near"}),
    "a named port": ([{"ports": [{"port": "web"}]}], set(CLIENTS)),
    "another port": ([{"ports": [{"port": 8081}]}], set()),
    "another protocol": ([{"ports": [{"port": 8080, "protocol": "UDP"}]}, {"ports": [{"protocol": "SCTP"}]}], set()),
    "a range of ports": ([{"ports": [{"port": 8000, "endPort": 8080}]}], set(CLIENTS)),
    "a range beside": ([{"ports": [{"port": 8081, "endPort": 9000}]}], set()),
}


@pytest.mark.parametrize("case", INGRESS)
def test_ingress(cluster: Cluster, pods: Pods, case: str) -> None:
    rules, allowed = INGRESS[case]
    server = pods("server")
    cluster.expect(True, pods("other/far"), server)
    with cluster.policy({"podSelector": SERVER, "policyTypes": ["Ingress"], "ingress": rules}):
        for name in CLIENTS:
            cluster.expect(name in allowed, pods(name), server)
        # the policy does not select its namesake
        cluster.expect(True, pods("near"), pods("other/server"))


def test_address_blocks_and_exceptions(cluster: Cluster, pods: Pods) -> None:
    server, near = pods("server"), pods("near")
    block = {"cidr": "10.0.0.0/8", "except": [f"{near.address}/32"]}
    with cluster.policy({"podSelector": SERVER, "ingress": [{"from": [{"ipBlock": block}]}]}):
        cluster.expect(False, near, server)
        cluster.expect(True, pods("far"), server)


def test_datagrams(cluster: Cluster, pods: Pods) -> None:
    far, server = pods("far"), pods("server")
    cluster.expect(True, far, server, protocol="UDP")
    with cluster.policy({"podSelector": SERVER, "ingress": [{"ports": [{"port": 8080}]}]}):
        cluster.expect(False, far, server, protocol="UDP")
        cluster.expect(True, far, server)


def test_egress_by_service_and_node_port(cluster: Cluster, pods: Pods) -> None:
    """Rules name pods; the way through a Service's address or a port of any node is the same."""
    far, server = pods("far"), pods("server")
    own, foreign = (
        json.loads(cluster.kubectl("--namespace", n, "get", "service", "server", "--output", "json"))["spec"]
        for n in (cluster.home, cluster.other)
    )
    node = status(cluster.kubectl, cluster.home, "near")["status"]["hostIP"]
    for service in (own, foreign):
        cluster.expect(True, far, service["clusterIP"], 80)
    cluster.expect(True, far, node, own["ports"][0]["nodePort"])
    egress = [{"to": [{"podSelector": SERVER}]}]
    with cluster.policy({"podSelector": {}, "policyTypes": ["Egress"], "egress": egress}):
        cluster.expect(False, far, foreign["clusterIP"], 80)
        cluster.expect(False, far, pods("other/server"))
        cluster.expect(True, far, own["clusterIP"], 80)
        cluster.expect(True, far, server, protocol="UDP")
    cluster.expect(True, far, foreign["clusterIP"], 80)


def test_egress_to_nodes_and_name_servers(cluster: Cluster, pods: Pods) -> None:
    near = pods("near")
    dns = json.loads(cluster.kubectl("--namespace", "kube-system", "get", "service", "kube-dns", "--output", "json"))
    api = json.loads(cluster.kubectl("get", "service", "kubernetes", "--output", "json"))["spec"]["clusterIP"]
    node = status(cluster.kubectl, cluster.home, "near")["status"]["hostIP"]
    cluster.expect(True, near, api, 443)
    with cluster.policy({"podSelector": {}, "policyTypes": ["Egress"], "egress": [DNS]}):
        cluster.expect(False, near, api, 443)
        cluster.expect(True, near, dns["spec"]["clusterIP"], 53)
        for port in (22, 10250, 10256):
            cluster.expect(False, near, node, port)


def test_no_pod_reaches_the_metadata_service(cluster: Cluster, pods: Pods) -> None:
    for name in CLIENTS:
        assert not cluster.reaches(pods(name), "169.254.169.254", 80), name


def test_pods_without_policies_and_probes_are_left_alone(cluster: Cluster, pods: Pods) -> None:
    with cluster.policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}):
        cluster.expect(False, pods("near"), pods("server"))
        cluster.expect(True, pods("other/far"), pods("other/server"))
        time.sleep(4)  # three probes
        cluster.kubectl("-n", cluster.home, "wait", "--for=condition=Ready", "--timeout=60s", "pod", "server")


def test_open_connections_stay(context: SiteContext, cluster: Cluster, pods: Pods) -> None:
    server = pods("server")
    kubectl = [str(bin_directory() / "kubectl"), "--kubeconfig", str(context.paths.kubeconfig)]
    with subprocess.Popen(
        [*kubectl, "--namespace", cluster.home, "exec", "-i", "far", "--", "python3", "-c", STREAM, server.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as stream:
        assert stream.stdin is not None and stream.stdout is not None  # noqa: PT018  # for mypy
        assert stream.stdout.readline() == "connected\n"
        with cluster.policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}):
            cluster.expect(False, pods("far"), server)
            stream.stdin.write("more\n")
            stream.stdin.flush()
            assert stream.stdout.readline() == f"{pods('far').address}\n"
        stream.stdin.close()
        stream.wait(60)


def test_changed_labels_count_at_once(cluster: Cluster, pods: Pods) -> None:
    far, server = pods("far"), pods("server")
    friend = {"podSelector": {"matchLabels": {"friend": "yes"}}}
    with cluster.policy({"podSelector": SERVER, "ingress": [{"from": [friend]}]}):
        cluster.expect(False, far, server)
        cluster.kubectl("--namespace", cluster.home, "label", "pod", "far", "friend=yes")
        cluster.expect(True, far, server)
        cluster.kubectl("--namespace", cluster.home, "label", "pod", "far", "friend-")
        cluster.expect(False, far, server)


@pytest.mark.parametrize("node", [0, 1], ids=["near", "far"])
def test_a_new_pod_is_held_from_its_first_packet(cluster: Cluster, pods: Pods, node: int) -> None:
    target = pods("other/server").address

    def first_words(name: str, attempts: int) -> str:
        cluster.apply(manifest(cluster, cluster.home, name, [FIRST_WORDS, target, str(attempts)], node))
        eventually(
            lambda: status(cluster.kubectl, cluster.home, name)["status"]["phase"] in ("Succeeded", "Failed"),
            RESTART_SECONDS,
            f"pod {name} has ended",
        )
        text: str = cluster.kubectl("--namespace", cluster.home, "logs", name)
        return text.strip()

    # mostly at its second attempt: the first waits until the API server knows the pod's address
    assert first_words(f"free-{node}", 60).startswith("open at attempt")
    with cluster.policy({"podSelector": {}, "policyTypes": ["Egress"], "egress": [DNS]}):
        cluster.expect(False, pods("near"), target)
        assert first_words(f"held-{node}", 6) == "closed"


def test_host_network_pods_are_the_node(cluster: Cluster, pods: Pods) -> None:
    server = pods("server")
    sleep = ["import time; time.sleep(10**6)"]
    cluster.apply(manifest(cluster, cluster.home, "host", sleep, 1, hostNetwork=True))
    cluster.kubectl("--namespace", cluster.home, "wait", "--for=condition=Ready", "--timeout=110s", "pod", "host")
    host = pods("host")
    with cluster.policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}):
        cluster.expect(False, pods("far"), pods("other/server"))
        cluster.expect(True, host, pods("other/server"))
        cluster.expect(False, host, server)  # the server's node is another
    # as the server sees it: podman's networks translate what a node sends to pods of another
    address = cluster.python(host, WHO, server.address)
    block = {"ipBlock": {"cidr": f"{address}/32"}}
    with cluster.policy({"podSelector": SERVER, "ingress": [{"from": [block]}]}):
        cluster.expect(True, host, server)
        cluster.expect(False, pods("far"), server)


@pytest.mark.parametrize("unit", ["network-policies", "pod-network", "containerd", "kubelet"])
def test_policies_survive_restarts(cluster: Cluster, pods: Pods, site_host: Callable[[str], Any], unit: str) -> None:
    near, far, server = pods("near"), pods("far"), pods("server")
    with cluster.policy(
        {"podSelector": SERVER, "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "near"}}}]}]}
    ):
        cluster.expect(False, far, server)
        site_host(cluster.nodes[0]).check_output(f"systemctl restart {unit}")
        cluster.expect(True, near, server)
        assert not cluster.reaches(far, server.address)
