"""The Kubernetes cluster, as users see it."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from strata.catalogue.needs.database import KINE_DATABASE
from strata.inventory.clients import pod_services
from strata.inventory.kubernetes import endpoint, registry_name
from strata.inventory.ports import DATASTORE, INGRESS
from strata.inventory.services import service_names
from strata.models import Site
from strata.models.gpu_nodes import gpu_nodes as accelerators_of_nodes
from strata.models.gpu_nodes import node_labels, pool_of
from strata.models.gpu_nodes import offered as accelerators_as_offered
from strata.models.platform import Tenant
from strata.platform.accelerators import by_resource
from strata.roles import roles
from strata.site.context import SiteContext
from strata.site.hosts import Host as SiteHost
from strata.site.hosts import hosts, hosts_with, running_roles
from strata.site.installers import POD_NETWORK, runs_role
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.toolchain import load_versions
from strata.verify import pods
from strata.verify.cards import POD_COMMAND, host_cards
from strata.verify.pods import Kubectl, PodRequest
from strata.verify.waiting import settled
from strata.verify.workers import ACCELERATORS

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

TOLERATE_ALL = [{"operator": "Exists"}]
REACHABLE = """
import concurrent.futures, json, socket, sys, time
def connects(target):
    address, port = target.rsplit(":", 1)
    tries, seconds = (5, 5) if target in sys.argv[1].split(",") else (1, 2)
    for _ in range(tries):
        try:
            socket.create_connection((address, int(port)), timeout=seconds).close()
            return True
        except OSError:
            time.sleep(1)
    return False
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(json.dumps([target for target, found in zip(sys.argv[2:], pool.map(connects, sys.argv[2:])) if found]))
"""
"""Prints which of `address:port` connect; the first argument names those that are tried again, with commas."""
LISTEN = "import socket; s = socket.create_server(('', 8080)); [s.accept() for _ in iter(int, 1)]"
CONNECT = """
import json, socket, sys, time
def reaches(address, seconds):
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, 8080), 3).close()
            return True
        except OSError:
            if time.monotonic() > end:
                return False
        time.sleep(0.5)
own, foreign = sys.argv[1:]
print(json.dumps([reaches(own, 60), reaches(foreign, 0)]))
"""
RESOLVE = """
import json, socket, sys, time
def address(name):
    for _ in range(10):
        try:
            return socket.gethostbyname(name)
        except OSError as error:
            answer = str(error)
            time.sleep(1)
    return answer
print(json.dumps({name: address(name) for name in sys.argv[1:]}))
"""


@pytest.fixture(scope="module", autouse=True)
def _site_has_a_cluster(site: Site) -> None:
    if site.cluster is None:
        pytest.skip(f"site {site.name} has no cluster")


@pytest.fixture(scope="module")
def machines(site: Site, cloud_outputs: CloudOutputs) -> tuple[SiteHost, ...]:
    """The hosts that are nodes."""
    wanted = {"kube_control_plane", "kube_node"}
    return tuple(h for h in hosts(site, cloud_outputs) if wanted.intersection(h.roles))


@pytest.fixture(scope="module")
def gpu_nodes(machines: tuple[SiteHost, ...]) -> tuple[str, ...]:
    """Names of the GPU nodes; skips where the site has none."""
    found = tuple(h.name for h in machines if "gpu_node" in h.roles)
    if not found:
        pytest.skip("the site has no host with the role gpu_node")
    return found


@pytest.fixture(scope="module")
def nodes(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """Node objects by name, once all are Ready."""

    def ready(found: dict[str, dict[str, Any]]) -> bool:
        return all(state_of(node) == "True" for node in found.values())

    return settled(lambda: list_nodes(kubectl), ready)


def list_nodes(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """Node objects by name."""
    return {n["metadata"]["name"]: n for n in json.loads(kubectl("get", "nodes", "--output", "json"))["items"]}


def state_of(node: dict[str, Any]) -> str:
    """The status of a node's condition Ready."""
    return str({c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"])


@pytest.fixture(scope="module")
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace that goes away with what is in it."""
    name = f"strata-verify-{secrets.token_hex(3)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def cards_of(site: Site, cloud_outputs: CloudOutputs, cloud: Connection) -> Callable[[str], Counter[str]]:
    """What nova gave to an instance: extended resource → cards, from the flavor's PCI aliases."""

    def count(name: str) -> Counter[str]:
        server = cloud.compute.get_server(cloud_outputs.instances[name].id)
        aliases = server.flavor.extra_specs.get("pci_passthrough:alias", "")
        found: Counter[str] = Counter()
        for alias in filter(None, aliases.split(",")):
            kind, _, number = alias.strip().partition(":")
            found[site.accelerators[kind].resource] += int(number)
        return found

    return count


def test_nodes_are_ready(machines: tuple[SiteHost, ...], nodes: dict[str, dict[str, Any]]) -> None:
    """Every node of the site, and no other, is Ready at the pinned Kubernetes version"""
    version = "v" + load_versions().tools["kubelet"].version
    assert set(nodes) == {h.name for h in machines}
    for name, node in nodes.items():
        assert (name, state_of(node), node["status"]["nodeInfo"]["kubeletVersion"]) == (name, "True", version)


def test_gpu_nodes_are_marked(site: Site, gpu_nodes: tuple[str, ...], nodes: dict[str, dict[str, Any]]) -> None:
    """GPU nodes have the labels and taints set in site.yaml; no other node does"""
    assert site.cluster is not None
    marks, accelerators = site.cluster.gpu_nodes, accelerators_of_nodes(site)
    for name, node in nodes.items():
        labels = node["metadata"]["labels"]
        taints = {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints", [])}
        wanted = node_labels(site, accelerators.get(name, {}), name)
        marked = wanted.items() <= labels.items() and taints.issuperset(marks.taints)
        assert marked == (name in gpu_nodes), f"{name}: labels {labels}, taints {taints}"


def test_datastore_is_postgresql(
    site: Site, cloud_outputs: CloudOutputs, kubectl: Kubectl, namespace: str, host: Callable[[str], Host]
) -> None:
    """The API server stores objects in the site's PostgreSQL, through kine"""
    assert site.cluster is not None
    if site.cluster.datastore != "kine":
        pytest.skip(f"the site's datastore is {site.cluster.datastore}")
    kine = [endpoint(h.address, DATASTORE) for h in hosts_with("kine", site, cloud_outputs)]
    control = hosts_with("kube_control_plane", site, cloud_outputs)[0]
    manifest = host(control.name).file("/etc/kubernetes/manifests/kube-apiserver.yaml").content_string
    assert f"--etcd-servers={','.join(kine)}" in manifest
    name = f"witness-{secrets.token_hex(4)}"
    kubectl("--namespace", namespace, "create", "configmap", name)
    database = host(hosts_with("postgresql", site, cloud_outputs)[0].name)
    query = f"select count(*) from kine where name = '/registry/configmaps/{namespace}/{name}'"  # noqa: S608  # ours
    found = database.check_output('runuser -u postgres -- psql -tAc "%s" %s' % (query, KINE_DATABASE))  # noqa: UP031
    assert found.strip() == "1"


def test_pods_reach_hosts_only_for_services(
    site: Site, cloud_outputs: CloudOutputs, kubectl: Kubectl, namespace: str, images: ImageOutputs
) -> None:
    """A pod of a namespace without policies reaches the host services for all pods, and no other port of any host"""
    if not runs_role(site, POD_NETWORK):
        pytest.skip("the site's network plugin is not the role pod_network")
    everyone = hosts(site, cloud_outputs)
    running = [(host, role) for host in everyone for role in running_roles(site, host.roles)]
    services = pod_services(site)
    meant = {
        f"{host.address}:{port}"
        for host, role in running
        for port, namespaces in services.get(role, {}).items()
        if namespaces is None
    }
    # the ingress controller is a pod behind a NodePort, which other pods may reach
    listening = {
        f"{host.address}:{one.port}" for host, role in running for one in roles()[role].ports if one.port != INGRESS
    }
    targets = sorted(meant | listening)
    command = ["python3", "-c", REACHABLE, ",".join(meant), *targets]
    output, _ = pods.run(kubectl, namespace, PodRequest("connect", images.images["pod-base"], command))
    assert set(json.loads(output)) == meant


def test_dns_answers_across_nodes(
    site: Site,
    context: SiteContext,
    kubectl: Kubectl,
    namespace: str,
    images: ImageOutputs,
    nodes: dict[str, dict[str, Any]],
) -> None:
    """Cluster DNS resolves the cluster's and the site's services for a pod on a node without CoreDNS"""
    homes = {pod["spec"]["nodeName"] for pod in pods.running_pods(kubectl, "kube-dns", "kube-system", "k8s-app")}
    elsewhere = sorted(set(nodes) - homes)
    assert elsewhere, f"CoreDNS is on every node: {homes}"
    service = json.loads(kubectl("get", "service", "kubernetes", "--output", "json"))["spec"]["clusterIP"]
    expected = {one["name"]: one["address"] for one in service_names(site, context.cloud_outputs)}
    expected["kubernetes.default.svc.cluster.local"] = service
    request = PodRequest(
        name="dns",
        image=images.images["pod-base"],
        command=["python3", "-c", RESOLVE, *expected],
        node=elsewhere[-1],
        tolerations=TOLERATE_ALL,
    )
    output, node = pods.run(kubectl, namespace, request)
    assert (json.loads(output), node) == (expected, elsewhere[-1])


def test_allocatable_cards_are_novas(
    site: Site,
    gpu_nodes: tuple[str, ...],
    nodes: dict[str, dict[str, Any]],
    cards_of: Callable[[str], Counter[str]],
    kubectl: Kubectl,
) -> None:
    """Each node's allocatable accelerators are exactly those that nova attached to its instance"""
    resources = {a.resource for a in site.accelerators.values()}

    def offered() -> dict[str, dict[str, int]]:
        found = {name: node["status"]["allocatable"] for name, node in list_nodes(kubectl).items()}
        return {name: {r: int(n) for r, n in has.items() if r in resources and int(n)} for name, has in found.items()}

    shared = {
        name: by_resource(site, counts) for name, counts in accelerators_as_offered(site).items() if pool_of(site, name)
    }
    given = {name: shared.get(name) or dict(cards_of(name)) for name in nodes}
    # a kubelet that was restarted offers none until the device plugin has registered again
    assert settled(offered, lambda found: found == given) == given
    assert {name for name, cards in given.items() if cards} == set(gpu_nodes)


@pytest.mark.xdist_group(ACCELERATORS)
def test_gpu_pod_sees_its_cards(
    context: SiteContext,
    kubectl: Kubectl,
    namespace: str,
    images: ImageOutputs,
    gpu_nodes: tuple[str, ...],
    cards_of: Callable[[str], Counter[str]],
    host: Callable[[str], Host],
) -> None:
    """A pod that requests all GPUs of a node sees exactly those"""
    node = gpu_nodes[0]
    resource, number = cards_of(node).most_common(1)[0]
    there = set(host_cards(host(node), context.provider.pci_directories, context.site.accelerators.values()))
    request = PodRequest(
        name="gpu",
        image=images.images["pod-base"],
        command=POD_COMMAND,
        node=node,
        resources={resource: str(number)},
        tolerations=TOLERATE_ALL,
    )
    output, _ = pods.run(kubectl, namespace, request)
    seen = json.loads(output)
    assert set(seen["addresses"]) == there
    if context.provider.simulates_accelerators:  # the driver's own plugin writes identifiers of its own
        assert set(seen["variable"].split(",")) == there
    assert len(there) == number


def test_cpu_pod_sees_no_card(
    kubectl: Kubectl, namespace: str, images: ImageOutputs, gpu_nodes: tuple[str, ...]
) -> None:
    """A pod that requests no GPU avoids GPU nodes and sees no GPU"""
    request = PodRequest("cpu", images.images["pod-base"], POD_COMMAND)
    output, node = pods.run(kubectl, namespace, request)
    assert node not in gpu_nodes
    assert json.loads(output) == {"variable": "", "addresses": []}


def test_gpu_nodes_refuse_other_pods(
    kubectl: Kubectl, namespace: str, images: ImageOutputs, gpu_nodes: tuple[str, ...]
) -> None:
    """A pod that does not tolerate a GPU node's taint stays Pending, with that reason"""
    request = PodRequest("stray", images.images["pod-base"], ["true"], node=gpu_nodes[0])
    assert "untolerated taint" in pods.unschedulable_reason(kubectl, namespace, request)


def test_one_card_too_many_waits(
    kubectl: Kubectl,
    namespace: str,
    images: ImageOutputs,
    gpu_nodes: tuple[str, ...],
    cards_of: Callable[[str], Counter[str]],
) -> None:
    """A pod that requests one GPU more than any node has stays Pending, with the scheduler's reason"""
    resource = cards_of(gpu_nodes[0]).most_common(1)[0][0]
    most = max(cards_of(name)[resource] for name in gpu_nodes)
    request = PodRequest(
        name="too-many",
        image=images.images["pod-base"],
        command=["true"],
        resources={resource: str(most + 1)},
        tolerations=TOLERATE_ALL,
    )
    assert f"Insufficient {resource}" in pods.unschedulable_reason(kubectl, namespace, request)


def _tenant_with_cards(site: Site) -> Tenant:
    for tenant in site.platform.tenants:
        if tenant.quota.accelerators:
            return tenant
    pytest.skip("no tenant of the site has a quota of cards")


def test_tenant_quota_refuses(site: Site, kubectl: Kubectl, images: ImageOutputs) -> None:
    """A pod that exceeds its tenant's GPU quota is rejected at creation"""
    tenant = _tenant_with_cards(site)
    allowed: Counter[str] = Counter()
    for kind, number in tenant.quota.accelerators.items():
        allowed[site.accelerators[kind].resource] += number
    resource, number = allowed.most_common(1)[0]
    request = PodRequest(
        name=f"over-quota-{secrets.token_hex(3)}",
        image=images.images["pod-base"],
        command=["true"],
        resources={resource: str(number + 1)},
        tolerations=TOLERATE_ALL,
    )
    manifest = json.dumps(request.manifest())
    answer = kubectl("--namespace", tenant.name, "create", "--filename", "-", input=manifest, check=False)
    pods.delete(kubectl, tenant.name, request.name)
    assert "exceeded quota" in answer, answer
    assert f"limited: requests.{resource}={number}" in answer, answer


@pytest.mark.xdist_group("pods-of-two-namespaces")
def test_tenants_are_apart(site: Site, kubectl: Kubectl, namespace: str, images: ImageOutputs) -> None:
    """A tenant's pod connects to pods of its own namespace; traffic to and from other namespaces is blocked"""
    if not site.platform.tenants:
        pytest.skip("the site has no tenants")
    image = images.images["pod-base"]
    server, client = (f"verify-{role}-{secrets.token_hex(3)}" for role in ("server", "client"))
    first, second, *_ = (*(tenant.name for tenant in site.platform.tenants), namespace)
    places = (first, second)
    try:
        address = {
            place: pods.start(kubectl, place, PodRequest(server, image, ["python3", "-c", LISTEN])) for place in places
        }
        for own, foreign in (places, places[::-1]):
            request = PodRequest(client, image, ["python3", "-c", CONNECT, address[own], address[foreign]])
            output, _ = pods.run(kubectl, own, request)
            reached = dict(zip((own, foreign), json.loads(output), strict=True))
            assert reached == {own: True, foreign: False}, f"from the namespace {own}"
    finally:
        for place in places:
            pods.delete(kubectl, place, server)


def test_images_come_from_the_site(site: Site, kubectl: Kubectl, images: ImageOutputs) -> None:
    """Every container runs an image from the site's registry, with the digest that was pushed"""
    pushed = {image.digest for image in images.images.values()}
    foreign = []
    for pod in json.loads(kubectl("get", "pods", "--all-namespaces", "--output", "json"))["items"]:
        if "deletionTimestamp" in pod["metadata"]:
            continue
        for container in pod["status"].get("containerStatuses", []):
            repository, _, digest = container["imageID"].partition("@")
            if container["ready"] and (not repository.startswith(registry_name(site) + "/") or digest not in pushed):
                foreign.append(f"{pod['metadata']['name']}: {container['imageID']}")
    assert not foreign
