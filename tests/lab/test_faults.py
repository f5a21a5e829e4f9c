"""What is killed comes back by itself; what is full, taken or slow is told clearly, and leaves nothing half made."""

from __future__ import annotations

import concurrent.futures
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from strata.engine.context import SiteContext
from strata.inventory.topology import hosts_with
from strata.lab.podman import site_containers
from strata.models import Site
from strata.platform.releases import SYSTEM_NAMESPACE

from .healing import (
    eventually,
    in_controller,
    killed_and_restarted,
    main_process,
    nothing_left_over,
)

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

HEALED_SECONDS = 150
"""A machine with two cores on which everything else starts again too."""


@pytest.fixture(scope="module", autouse=True)
def lab_only(site: Site) -> None:
    """Other sites are not ours to break."""
    if site.cloud is None or site.cloud.deployment != "lab":
        pytest.skip(f"site {site.name} is no lab")


@pytest.fixture
def controller(context: SiteContext) -> Callable[..., str]:
    """`controller("systemctl", …)` → what the command says inside the controller."""
    return lambda *command: in_controller(context, *command)


@pytest.fixture
def on(site_host: Callable[[str], Host]) -> Callable[[str], Callable[..., str]]:
    """`on("services-1")("systemctl", …)` → what the command says on that host."""

    def host(name: str) -> Callable[..., str]:
        def run(*command: str) -> str:
            return str(site_host(name).check_output(" ".join(command)))

        return run

    return host


def host_of(context: SiteContext, role: str) -> str:
    """Name of the first host with a role."""
    return hosts_with(role, context.site, context.cloud_outputs)[0].name


def answers(cloud: Connection) -> dict[str, Callable[[], bool]]:
    """By unit, a question to OpenStack that only works when the unit does."""
    identity: Any = cloud.identity  # the SDK types it as either version's
    return {
        "keystone": lambda: bool(list(identity.projects())) and bool(cloud.authorize()),
        "placement": lambda: bool(list(cloud.placement.resource_providers())),
        "glance": lambda: bool(list(cloud.image.images())),
        "neutron": lambda: bool(list(cloud.network.networks())),
        "nova-api": lambda: bool(list(cloud.compute.flavors())),
    }


def test_openstack_services(cloud: Connection, controller: Callable[..., str]) -> None:
    """Each service's main process is killed, all of them within seconds; systemd brings each back, and it answers."""
    questions = answers(cloud)
    units = [*questions, "neutron-rpc-server", "nova-conductor", "nova-scheduler", "memcached"]
    with concurrent.futures.ThreadPoolExecutor(len(units)) as pool:
        for result in [pool.submit(killed_and_restarted, controller, unit, HEALED_SECONDS) for unit in units]:
            result.result()
    for unit, question in questions.items():
        eventually(question, HEALED_SECONDS, f"{unit} answers")


def test_what_openstack_stands_on(cloud: Connection, controller: Callable[..., str]) -> None:
    """After the message broker and the database died, every API answers and every hypervisor reports again."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        units = ("rabbitmq-server", "mariadb")
        for result in [pool.submit(killed_and_restarted, controller, unit, HEALED_SECONDS) for unit in units]:
            result.result()
    begin = time.time()
    for name, question in answers(cloud).items():
        eventually(question, HEALED_SECONDS, f"{name} answers")

    def all_report() -> bool:
        services = list(cloud.compute.services())
        # nova calls a service up for two minutes after its end; a new report is what counts
        reported = [
            time.mktime(time.strptime(s.updated_at[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone for s in services
        ]
        return bool(services) and all(s.state == "up" for s in services) and min(reported) > begin

    eventually(all_report, HEALED_SECONDS, "nova's services report")


@pytest.fixture
def small_server(cloud: Connection, site: Site) -> Iterator[Callable[[], Any]]:
    """Asks for an instance of the smallest flavor in the administrator's project; removed after the test."""
    assert site.cloud is not None
    flavor = next(f for f in site.cloud.flavors if not f.accelerators)
    name = f"fault-{uuid.uuid4().hex[:8]}"
    made: list[Any] = []
    network = cloud.network.create_network(name=name)
    first = 16 + int(uuid.uuid4().int % 200)
    cloud.network.create_subnet(network_id=network.id, ip_version=4, cidr=f"198.19.{first}.0/28", name=name)

    def create() -> Any:
        made.append(
            cloud.compute.create_server(
                name=name,
                flavor_id=cloud.compute.find_flavor(flavor.name, ignore_missing=False).id,
                image_id=cloud.image.find_image(site.cloud.images[0].name, ignore_missing=False).id,  # type: ignore[union-attr]
                networks=[{"uuid": network.id}],
            )
        )
        return made[-1]

    yield create
    for server in made:
        cloud.compute.delete_server(server, ignore_missing=True)
        cloud.compute.wait_for_delete(server, wait=HEALED_SECONDS)
    cloud.network.delete_network(network)


def test_nova_compute_in_the_middle_of_a_build(
    cloud: Connection, controller: Callable[..., str], small_server: Callable[[], Any], context: SiteContext
) -> None:
    """The instance under way ends as nova's ERROR or ACTIVE, can be deleted, and the next one is built."""
    before = set(site_containers(context.site.name))
    server = small_server()
    assert context.site.cloud is not None

    def where() -> str:
        return str(cloud.compute.get_server(server).hypervisor_hostname or "")

    eventually(lambda: bool(where()), 60, "nova chose a hypervisor")
    unit = f"nova-compute@{where()}"
    pid = main_process(controller, unit)
    controller("kill", "-9", str(pid))
    eventually(
        lambda: controller("systemctl", "is-active", unit) == "active", HEALED_SECONDS, f"{unit} is active again"
    )
    state = ""

    def settled() -> bool:
        nonlocal state
        state = str(cloud.compute.get_server(server).status)
        return state in ("ACTIVE", "ERROR")

    eventually(settled, HEALED_SECONDS, "the instance that was being built has an end")
    cloud.compute.delete_server(server)
    cloud.compute.wait_for_delete(server, wait=HEALED_SECONDS)
    after = small_server()
    eventually(lambda: cloud.compute.get_server(after).status == "ACTIVE", HEALED_SECONDS, "the next one is built")
    cloud.compute.delete_server(after)
    cloud.compute.wait_for_delete(after, wait=HEALED_SECONDS)
    eventually(lambda: set(site_containers(context.site.name)) == before, 60, "no container of either is left")
    nothing_left_over(context)


@pytest.mark.parametrize(
    ("role", "unit"),
    [
        ("postgresql", "postgresql@15-main"),
        ("kine", "kine"),
        ("registry", "docker-registry"),
        ("load_balancer", "haproxy"),
        ("nfs_server", "nfs-ganesha"),
        ("kube_node", "containerd"),
        ("kube_node", "kubelet"),
        ("kube_control_plane", "kubelet"),
    ],
)
def test_services_of_hosts(
    role: str, unit: str, context: SiteContext, on: Callable[[str], Callable[..., str]], kubectl: Callable[..., str]
) -> None:
    """Killed, it is there again within seconds, and the cluster still answers and has every node Ready."""
    if role not in {r for host in hosts_with(role, context.site, context.cloud_outputs) for r in host.roles}:
        pytest.skip(f"the site has no host with the role {role}")
    killed_and_restarted(on(host_of(context, role)), unit, HEALED_SECONDS)
    eventually(lambda: all_ready(kubectl), HEALED_SECONDS, f"every node is Ready after {unit} died")


def all_ready(kubectl: Callable[..., str]) -> bool:
    """Whether every node is Ready."""
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    ready = [c["status"] == "True" for n in nodes for c in n["status"]["conditions"] if c["type"] == "Ready"]
    return bool(ready) and all(ready)


def test_pod_of_a_service(kubectl: Callable[..., str]) -> None:
    """The process of an ml-hub pod is killed; the pod is Ready again, the same pod with one restart more."""
    listed = json.loads(kubectl("get", "pods", "-n", SYSTEM_NAMESPACE, "-o", "json"))["items"]
    pods = [p for p in listed if p["metadata"]["name"].startswith("ml-hub")]
    if not pods:
        pytest.skip("the site has no ml-hub")
    name = pods[0]["metadata"]["name"]
    before = pods[0]["status"]["containerStatuses"][0]["restartCount"]
    kubectl("exec", "-n", SYSTEM_NAMESPACE, name, "--", "python3", "-c", "import os; os.kill(1, 15)", check=False)

    def back() -> bool:
        pod = json.loads(kubectl("get", "pod", "-n", SYSTEM_NAMESPACE, name, "-o", "json"))
        status = pod["status"]["containerStatuses"][0]
        return bool(status["restartCount"] == before + 1 and status["ready"])

    eventually(back, HEALED_SECONDS, f"{name} is Ready again")
