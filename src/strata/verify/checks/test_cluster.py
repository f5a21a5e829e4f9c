"""The Kubernetes cluster, as users see it."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strata.catalogue.needs.database import KINE_DATABASE
from strata.cloud.flavor_cards import flavor_cards
from strata.inventory.clients import pod_services
from strata.inventory.kubernetes import endpoint, registry_name
from strata.inventory.port_numbers import DATASTORE, INGRESS
from strata.inventory.topology import service_names
from strata.models.extended_resources import by_resource
from strata.models.gpu_nodes import KIND_LABEL, node_labels, pool_of
from strata.models.gpu_nodes import gpu_nodes as accelerators_of_nodes
from strata.models.gpu_nodes import offered as accelerators_as_offered
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import built_in_kinds
from strata.platform.releases import releases
from strata.roles import roles
from strata.site.context import SiteContext
from strata.site.host_list import Host as SiteHost
from strata.site.host_list import hosts, hosts_with, running_roles
from strata.site.installer_facts import builds_kubernetes_images
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.toolchain import load_versions
from strata.verify import pods
from strata.verify.cards import PodCards, host_devices, known_cards, pod_command
from strata.verify.needs import (
    CLUSTER,
    GPU_NODES,
    KINE,
    POD_CARDS,
    STRATA_NETWORK,
    TAINTED_GPU_NODES,
    TENANT_CARDS,
    TENANTS,
    needs,
    role,
)
from strata.verify.pods import Kubectl, PodRequest
from strata.verify.waiting import settled
from strata.verify.workers import ACCELERATORS

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

pytestmark = needs(CLUSTER)
KUBERNETES_NAMESPACE = "kube-system"
TOLERATE_ALL = [{"operator": "Exists"}]
Offered = dict[str, dict[str, int]]
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


def node_hosts(site: Site, outputs: CloudOutputs | None) -> tuple[SiteHost, ...]:
    """The hosts that are nodes."""
    node_roles = {"kube_control_plane", "kube_node"}
    return tuple(h for h in hosts(site, outputs) if node_roles.intersection(h.roles))


@pytest.fixture(scope="module")
def machines(site: Site, cloud_outputs: CloudOutputs | None) -> tuple[SiteHost, ...]:
    """The hosts that are nodes."""
    return node_hosts(site, cloud_outputs)


@pytest.fixture(scope="module")
def gpu_nodes(machines: tuple[SiteHost, ...]) -> tuple[str, ...]:
    """Names of the GPU nodes."""
    return tuple(h.name for h in machines if "gpu_node" in h.roles)


@pytest.fixture(scope="module")
def nodes(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """Node objects by name, once all are Ready."""

    def ready(by_name: dict[str, dict[str, Any]]) -> bool:
        return all(state_of(node) == "True" for node in by_name.values())

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


def cards_on(name: str, site: Site, outputs: CloudOutputs | None, cloud: Callable[[], Connection]) -> dict[str, int]:
    """Extended resource to cards of a host: by nova's flavor for an instance, by site.yaml for a machine."""
    instance = outputs.instances.get(name) if outputs else None
    declared = accelerators_of_nodes(site).get(name, {})
    if instance is None:
        return by_resource(site, {kind: number for kind, number in declared.items() if number})
    flavor = cloud().compute.get_server(instance.id).flavor
    if flavor.extra_specs is None:
        # clouds may hide them from members; the flavor itself is compared with site.yaml (test_cloud)
        return by_resource(site, declared)
    aliases = next((f.aliases for f in site.cloud.flavors if f.name == instance.flavor), {}) if site.cloud else {}
    return by_resource(site, flavor_cards(flavor.extra_specs, site.accelerators.values(), aliases))


@pytest.fixture(scope="module")
def cards_of(
    site: Site, cloud_outputs: CloudOutputs | None, request: pytest.FixtureRequest
) -> Callable[[str], dict[str, int]]:
    """Extended resource to cards, of a host by its name."""
    return lambda name: cards_on(name, site, cloud_outputs, lambda: request.getfixturevalue("cloud"))


@pytest.fixture(scope="module")
def offered(site: Site, nodes: dict[str, dict[str, Any]], cards_of: Callable[[str], dict[str, int]]) -> Offered:
    """Node to what it offers pods, by extended resource; none for nodes without cards."""
    shared = {
        name: by_resource(site, counts) for name, counts in accelerators_as_offered(site).items() if pool_of(site, name)
    }
    by_node = {name: shared.get(name) or cards_of(name) for name in nodes}
    return {name: cards for name, cards in by_node.items() if cards}


def test_nodes_are_ready(machines: tuple[SiteHost, ...], nodes: dict[str, dict[str, Any]]) -> None:
    """Every node of the site, and no other, is Ready at the pinned Kubernetes version"""
    version = "v" + load_versions().tools["kubelet"].version
    assert set(nodes) == {h.name for h in machines}
    for name, node in nodes.items():
        assert (name, state_of(node), node["status"]["nodeInfo"]["kubeletVersion"]) == (name, "True", version)


@needs(GPU_NODES)
def test_gpu_nodes_are_marked(site: Site, gpu_nodes: tuple[str, ...], nodes: dict[str, dict[str, Any]]) -> None:
    """GPU nodes have the labels and taints set in site.yaml; no other node does"""
    assert site.cluster is not None
    marks, accelerators = site.cluster.gpu_nodes, accelerators_of_nodes(site)
    for name, node in nodes.items():
        labels = node["metadata"]["labels"]
        taints = {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints", [])}
        text = f"{name}: labels {labels}, taints {taints}"
        if name in gpu_nodes:
            assert node_labels(site, accelerators.get(name, {}), name).items() <= labels.items(), text
            assert taints.issuperset(marks.taints), text
        else:
            assert not [label for label in labels if label.startswith(KIND_LABEL)], text
            assert not marks.labels or not marks.labels.items() <= labels.items(), text
            assert taints.isdisjoint(marks.taints), text


@needs(KINE)
def test_datastore_is_postgresql(
    site: Site, cloud_outputs: CloudOutputs | None, kubectl: Kubectl, namespace: str, host: Callable[[str], Host]
) -> None:
    """The API server stores objects in the site's PostgreSQL, through kine"""
    assert site.cluster is not None
    kine = [endpoint(h.address, DATASTORE) for h in hosts_with("kine", site, cloud_outputs)]
    control = hosts_with("kube_control_plane", site, cloud_outputs)[0]
    manifest = host(control.name).file("/etc/kubernetes/manifests/kube-apiserver.yaml").content_string
    assert f"--etcd-servers={','.join(kine)}" in manifest
    name = f"witness-{secrets.token_hex(4)}"
    kubectl("--namespace", namespace, "create", "configmap", name)
    database = host(hosts_with("postgresql", site, cloud_outputs)[0].name)
    query = f"select count(*) from kine where name = '/registry/configmaps/{namespace}/{name}'"  # noqa: S608  # ours
    output = database.check_output('runuser -u postgres -- psql -tAc "%s" %s' % (query, KINE_DATABASE))  # noqa: UP031
    assert output.strip() == "1"


@needs(STRATA_NETWORK)
def test_pods_reach_hosts_only_for_services(
    site: Site, cloud_outputs: CloudOutputs | None, kubectl: Kubectl, namespace: str, images: ImageOutputs
) -> None:
    """A pod of a namespace without policies reaches the host services for all pods, and no other port of any host"""
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
        f"{host.address}:{port.port}" for host, role in running for port in roles()[role].ports if port.port != INGRESS
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
    """Cluster DNS resolves the cluster's and the site's services for a pod, if possible on a node without CoreDNS"""
    homes = {pod["spec"]["nodeName"] for pod in pods.running_pods(kubectl, "kube-dns", "kube-system", "k8s-app")}
    elsewhere = sorted(set(nodes) - homes) or sorted(nodes)
    service = json.loads(kubectl("get", "service", "kubernetes", "--output", "json"))["spec"]["clusterIP"]
    expected = {entry["name"]: entry["address"] for entry in service_names(site, context.cloud_outputs)}
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


@needs(GPU_NODES)
def test_allocatable_cards_are_novas(
    site: Site, gpu_nodes: tuple[str, ...], offered: Offered, kubectl: Kubectl
) -> None:
    """Each node's allocatable accelerators are exactly those that nova attached to its instance, or the machine's"""
    resources = {a.resource for a in site.accelerators.values()}

    def allocatable() -> Offered:
        by_node = {name: node["status"]["allocatable"] for name, node in list_nodes(kubectl).items()}
        counts = {
            name: {r: int(n) for r, n in has.items() if r in resources and int(n)} for name, has in by_node.items()
        }
        return {name: cards for name, cards in counts.items() if cards}

    # a kubelet that was restarted offers none until the device plugin has registered again
    assert settled(allocatable, lambda counts: counts == offered) == offered
    assert set(offered) == set(gpu_nodes)


def whole_cards(site: Site, offered: Offered) -> tuple[str, str, int]:
    """A node, a resource that it offers, and how many of it a pod can request: all cards of a node without a pool if
    there is one, else one share."""
    readable = {
        card.resource
        for kind, card in site.accelerators.items()
        if card.compute_capability or kind in built_in_kinds(site)
    }
    whole = sorted(offered, key=lambda name: pool_of(site, name) is not None)
    node, resource = next((name, r) for name in whole for r in sorted(offered[name]) if r in readable)
    return node, resource, 1 if pool_of(site, node) else offered[node][resource]


@needs(GPU_NODES, POD_CARDS)
@pytest.mark.xdist_group(ACCELERATORS)
def test_gpu_pod_sees_its_cards(
    context: SiteContext,
    kubectl: Kubectl,
    namespace: str,
    images: ImageOutputs,
    offered: Offered,
    host: Callable[[str], Host],
) -> None:
    """A pod that requests all GPUs of a node sees exactly those"""
    site = context.site
    node, resource, number = whole_cards(site, offered)
    kinds = {kind: card for kind, card in site.accelerators.items() if card.resource == resource}
    there = set(known_cards(host_devices(host(node), context.provider.pci_directories), kinds.values()))
    request = PodRequest(
        name="gpu",
        image=images.images["pod-base"],
        command=pod_command(context.provider.pci_directories),
        node=node,
        resources={resource: str(number)},
        tolerations=TOLERATE_ALL,
    )
    output, _ = pods.run(kubectl, namespace, request)
    seen = PodCards(**json.loads(output))
    if set(kinds).intersection(built_in_kinds(site)):
        # Strata's device plugin names the cards, and has the directories of those without hardware mounted
        assert {address for value in seen.variables.values() for address in value.split(",")} == there
        assert not seen.directories or set(seen.directories) == there
        assert seen.directories or not context.site.simulates_accelerators
    else:
        assert not seen.problem, f"nvidia-smi in the pod: {seen.problem}"
        assert set(seen.driver) <= there
        assert len(seen.files) == len(seen.driver)
    if pool_of(site, node) is None:
        assert len(there) == number
        assert seen.directories or seen.variables or set(seen.driver) == there
    else:
        assert seen.driver or seen.variables


@needs(GPU_NODES)
def test_cpu_pod_sees_no_card(
    site: Site,
    context: SiteContext,
    kubectl: Kubectl,
    namespace: str,
    images: ImageOutputs,
    gpu_nodes: tuple[str, ...],
    nodes: dict[str, dict[str, Any]],
) -> None:
    """A pod that requests no GPU avoids tainted GPU nodes and sees no GPU"""
    assert site.cluster is not None
    request = PodRequest("cpu", images.images["pod-base"], pod_command(context.provider.pci_directories))
    if set(nodes) - set(gpu_nodes) <= {name for name, node in nodes.items() if node["spec"].get("taints")}:
        request = replace(request, node=gpu_nodes[0], tolerations=TOLERATE_ALL)  # a site whose workers all have GPUs
    output, node = pods.run(kubectl, namespace, request)
    assert request.node or not site.cluster.gpu_nodes.taints or node not in gpu_nodes
    seen = PodCards(**json.loads(output))
    assert seen.none, seen


@needs(GPU_NODES, TAINTED_GPU_NODES)
def test_gpu_nodes_refuse_other_pods(
    kubectl: Kubectl, namespace: str, images: ImageOutputs, gpu_nodes: tuple[str, ...]
) -> None:
    """A pod that does not tolerate a GPU node's taint stays Pending, with that reason"""
    request = PodRequest("stray", images.images["pod-base"], ["true"], node=gpu_nodes[0])
    assert "untolerated taint" in pods.unschedulable_reason(kubectl, namespace, request)


@needs(GPU_NODES)
def test_one_card_too_many_waits(kubectl: Kubectl, namespace: str, images: ImageOutputs, offered: Offered) -> None:
    """A pod that requests one GPU more than any node has stays Pending, with the scheduler's reason"""
    resource = min(resource for cards in offered.values() for resource in cards)
    most = max(cards.get(resource, 0) for cards in offered.values())
    request = PodRequest(
        name="too-many",
        image=images.images["pod-base"],
        command=["true"],
        resources={resource: str(most + 1)},
        tolerations=TOLERATE_ALL,
    )
    assert f"Insufficient {resource}" in pods.unschedulable_reason(kubectl, namespace, request)


@needs(TENANT_CARDS)
def test_tenant_quota_refuses(site: Site, kubectl: Kubectl, images: ImageOutputs) -> None:
    """A pod that exceeds its tenant's GPU quota is rejected at creation"""
    tenant = next(tenant for tenant in site.platform.tenants if tenant.quota.accelerators)
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


@needs(TENANTS)
@pytest.mark.xdist_group("pods-of-two-namespaces")
def test_tenants_are_apart(site: Site, kubectl: Kubectl, namespace: str, images: ImageOutputs) -> None:
    """A tenant's pod connects to pods of its own namespace; traffic to and from other namespaces is blocked"""
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


def published_images(site: Site) -> set[str]:
    """References of the images that the site's releases of charts of others name, in versions.yaml."""
    charts = load_versions().charts
    used = {release.chart for release in releases(site) if release.chart in charts and not release.substitute}
    return {f"{name}:{tag}" for chart in used for name, tag in charts[chart].image_tags.items()}


@needs(role("registry"))
def test_images_come_from_the_site(site: Site, kubectl: Kubectl, images: ImageOutputs) -> None:
    """Every container of the platform runs an image from the site's registry, with the digest that was pushed, or the
    pinned one of a chart that the site uses"""
    pushed = {image.digest for image in images.images.values()}
    users = {tenant.name for tenant in site.platform.tenants}
    others = published_images(site)
    # Kubespray's own images, of the versions that it pins
    upstream = set() if builds_kubernetes_images(site) else {KUBERNETES_NAMESPACE}
    foreign = []
    for pod in json.loads(kubectl("get", "pods", "--all-namespaces", "--output", "json"))["items"]:
        metadata = pod["metadata"]
        own = {container["name"]: container["image"] for container in pod["spec"]["containers"]}
        if "deletionTimestamp" in metadata or metadata["namespace"] in users | upstream:
            continue  # users of a tenant run any image that their nodes can pull
        for container in pod["status"].get("containerStatuses", []):
            repository, _, digest = container["imageID"].partition("@")
            of_site = repository.startswith(registry_name(site) + "/")
            known = digest in pushed if of_site else own[container["name"]] in others
            if container["ready"] and not known:
                foreign.append(f"{metadata['name']}: {container['imageID']}")
    assert not foreign
