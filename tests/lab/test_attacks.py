"""The walls hold: each target of the table is tried from where each attacker is, and from where it must work."""

from __future__ import annotations

import json
import secrets as randomness
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from strata.inventory.clients import HOST_SERVICES_LABEL, NODES, NODES_SECRET, OPERATOR, OPERATOR_SECRET
from strata.inventory.port_numbers import KUBELET, KUBERNETES_API, NODE_EXPORTER, POSTGRESQL, REGISTRY, REGISTRY_PUSH
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import ImageOutputs
from strata.verify import pods
from strata.verify.pods import PodRequest
from strata.verify.waiting import settled
from strata_services.object_storage.service import NAMESPACE as STORAGE_NAMESPACE

from .attacks import (
    BARE,
    CATALOG,
    INSTANCE,
    MANIFEST,
    METADATA,
    METADATA_ADDRESS,
    NAMED,
    OPEN,
    OUTSIDE,
    PROBE,
    SERVICE,
    TARGETS,
    TENANT,
    UPLOADS,
    Target,
    keyless,
    probes_of,
    with_metadata,
    with_password,
    wrong,
)
from .tenants import Machine, small_flavor, tenant, wait_until

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

Results = dict[str, str]
LIMITS = {"cpu": "100m", "memory": "128Mi"}


@pytest.fixture(scope="module")
def probes(context: SiteContext) -> dict[str, dict[str, Any]]:
    """Every target's probe by name, with its address."""
    return probes_of(context)


def pod_results(
    kubectl: Callable[..., str],
    namespace: str,
    images: ImageOutputs,
    probes: dict[str, dict[str, Any]],
    node: str,
    identity: tuple[int, int] | None = None,
) -> Results:
    """What a pod finds."""
    request = PodRequest(
        f"attack-{randomness.token_hex(3)}",
        images.images["pod-base"],
        ["sh", "-c", 'printf %s "$1" | python3 -c "$0"', PROBE, keyless(with_metadata(probes))],
        node=node,
        resources=LIMITS,
        tolerations=[{"operator": "Exists"}],
        identity=identity,
    )
    output, _ = pods.run(kubectl, namespace, request)
    results: Results = json.loads(output)
    return results


def local_results(context: SiteContext, probes: dict[str, dict[str, Any]], source: str | None = None) -> Results:
    """What this machine finds.

    Args:
        context: has the passwords.
        probes: by name.
        source: address that it sends from; that of the route if None.
    """
    names = {NODES: NODES_SECRET, OPERATOR: OPERATOR_SECRET}
    targets = {
        name: {**with_password(probe, lambda user: context.secrets.get(names[user])), "source": source}
        for name, probe in probes.items()
    }
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        input=json.dumps(targets),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    results: Results = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def workers(context: SiteContext) -> tuple[str, ...]:
    """Names of the nodes that run pods."""
    return tuple(host.name for host in hosts_with("kube_node", context.site, context.cloud_outputs))


@pytest.fixture(scope="module")
def tenant_results(
    context: SiteContext, kubectl: Callable[..., str], images: ImageOutputs, probes: Any, workers: Any
) -> Results:
    """From a pod in the namespace of a tenant of the site."""
    return pod_results(kubectl, context.site.platform.tenants[0].name, images, probes, workers[0])


@pytest.fixture(scope="module")
def service_results(kubectl: Callable[..., str], images: ImageOutputs, probes: Any, workers: Any) -> Results:
    """From a pod in the namespace of a service that needs no database; its pod security level is restricted."""
    return pod_results(kubectl, STORAGE_NAMESPACE.name, images, probes, workers[0], identity=(1000, 1000))


@pytest.fixture(scope="module")
def bare_results(kubectl: Callable[..., str], images: ImageOutputs, probes: Any, workers: Any) -> Results:
    """From a pod on another node, in a namespace without any policy."""
    name = f"attack-{randomness.token_hex(3)}"
    kubectl("create", "namespace", name)
    try:
        return pod_results(kubectl, name, images, probes, workers[-1])
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def stranger(context: SiteContext, cloud: Connection) -> Iterator[Machine]:
    """An instance of another project, with a router to the external network that the site's own router leads to."""
    site = context.site
    assert site.cloud is not None
    assert site.cloud.control_network is not None
    image = cloud.image.find_image(site.cloud.images[0].name, ignore_missing=False)
    external = cloud.network.find_network(str(site.cloud.external_network), ignore_missing=False)
    plain = next(f.name for f in site.cloud.flavors if not f.accelerators)
    cidr = f"198.18.{site.cloud.control_network.network_address.packed[1]}.32/28"
    with small_flavor(cloud, plain) as flavor, tenant(cloud, site.name) as other:
        subnet = other.network("attacker", cidr)
        port = other.port(subnet, [other.group("attacker")])
        machine = other.machines(image.id, flavor, attacker=port)["attacker"]
        with other.router(subnet, external_network_id=external.id):
            yield machine


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, context: SiteContext, probes: dict[str, dict[str, Any]]
) -> Callable[[str], Results]:
    """`results(TENANT)` → what that attacker finds, by name of the target."""
    assert context.site.cloud is not None
    assert context.site.cloud.control_network is not None
    unnamed = str(context.site.cloud.control_network[1])
    by_attacker: dict[str, Results] = {}

    def from_instance() -> Results:
        machine: Machine = request.getfixturevalue("stranger")
        # it has a way out
        wait_until(lambda: machine.reaches(str(context.site.cloud.control_network[10]), 8774))  # type: ignore[union-attr,index]
        return dict(json.loads(machine.run("python3", "-c", PROBE, stdin=keyless(probes), timeout=300)))

    ways: dict[str, Callable[[], Results]] = {
        TENANT: lambda: request.getfixturevalue("tenant_results"),
        SERVICE: lambda: request.getfixturevalue("service_results"),
        BARE: lambda: request.getfixturevalue("bare_results"),
        INSTANCE: from_instance,
        OUTSIDE: lambda: local_results(context, probes, unnamed),
        NAMED: lambda: local_results(context, probes),
    }

    def get(attacker: str) -> Results:
        if attacker not in by_attacker:
            by_attacker[attacker] = ways[attacker]()
        return by_attacker[attacker]

    return get


@pytest.mark.parametrize("attacker", [TENANT, SERVICE, BARE, INSTANCE, OUTSIDE, NAMED])
def test_attacks_fail(attacker: str, results: Callable[[str], Results]) -> None:
    """Every cell of the table; test_two_tenants has the notebook's."""
    assert not wrong(attacker, results(attacker))


@pytest.mark.parametrize("attacker", [TENANT, SERVICE, BARE])
def test_metadata_is_closed_to_pods(attacker: str, results: Callable[[str], Results]) -> None:
    assert results(attacker)[METADATA.name] in METADATA.expected[attacker]


@pytest.mark.parametrize("target", [t for t in (*TARGETS, METADATA) if t.allowed], ids=lambda t: t.name)
def test_the_same_probe_works_where_it_may(
    target: Target, context: SiteContext, site_host: Callable[[str], Host], probes: dict[str, dict[str, Any]]
) -> None:
    """Else `closed` would show nothing."""
    assert target.allowed is not None
    probe = probes.get(target.name, {**target.probe, "address": METADATA_ADDRESS})
    client = site_host(hosts_with(target.allowed, context.site, context.cloud_outputs)[-1].name)

    def attempt() -> Results:
        done = client.run("printf %%s %s | python3 -c %s", json.dumps({target.name: probe}), PROBE)
        return dict(json.loads(done.stdout))

    expected = {target.name: OPEN}
    assert settled(attempt, lambda results: results == expected) == expected


def test_the_right_keys_open_the_registry(context: SiteContext, probes: dict[str, dict[str, Any]]) -> None:
    """Nodes list and pull, the operator pushes and deletes: the probes can succeed."""
    address = probes["registry: list images, anonymously"]["address"]
    base = {"kind": "https", "address": address}
    allowed = {
        "list": {**base, "port": REGISTRY, "path": CATALOG, "login": NODES},
        "pull": {**base, "port": REGISTRY, "path": "/v2/strata/pod-base/tags/list", "login": NODES},
        "push": {**base, "port": REGISTRY_PUSH, "path": UPLOADS, "method": "POST", "login": OPERATOR},
        "delete": {**base, "port": REGISTRY_PUSH, "path": MANIFEST, "method": "DELETE", "login": OPERATOR},
    }
    expected = dict.fromkeys(allowed, OPEN)
    assert settled(lambda: local_results(context, allowed), lambda results: results == expected) == expected


def test_pods_reach_what_is_for_them(
    context: SiteContext, kubectl: Callable[..., str], images: ImageOutputs, workers: tuple[str, ...]
) -> None:
    """A pod of an admitted namespace connects to what is for it, so that `closed` is not an accident of its network."""
    probes = {
        role: {
            "kind": "tcp",
            "port": port,
            "address": hosts_with(role, context.site, context.cloud_outputs)[0].address,
        }
        for role, port in (
            ("postgresql", POSTGRESQL),
            ("kube_control_plane", KUBERNETES_API),
            ("kube_node", KUBELET),
            ("load_balancer", NODE_EXPORTER),
        )
    }
    namespace = f"attack-{randomness.token_hex(3)}"
    kubectl("create", "namespace", namespace)
    kubectl("label", "namespace", namespace, HOST_SERVICES_LABEL)

    def attempt() -> Results:
        results = pod_results(kubectl, namespace, images, probes, workers[0])
        return {role: results[role] for role in probes}

    expected = dict.fromkeys(probes, OPEN)
    try:
        assert settled(attempt, lambda results: results == expected) == expected
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
