"""What is killed returns by itself; what is full, taken or slow is reported clearly, and leaves nothing incomplete."""

from __future__ import annotations

import concurrent.futures
import json
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import requests

from strata.access.podman import site_containers
from strata.catalogue.published import published
from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.inventory.port_numbers import INGRESS
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with, ingress_nodes
from strata.verify.pods import running_pods
from strata_bench.waiting import eventually
from strata_services.ml_hub.service import SERVICE

from .healing import (
    in_controller,
    kill,
    killed_and_restarted,
    nothing_left_over,
    wait_for_restart,
)
from .lab_site import require_lab
from .questions import (
    QUESTIONS,
    HostServices,
    apis,
    memcached_keeps,
    neutron_answers_agents,
    nova_reports_since,
    nova_schedules,
    process_of,
)
from .tenants import small_flavor

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

HEALED_SECONDS = 300
"""A machine with two cores on which everything else starts again too."""
TOO_LARGE = 1_000_000
"""GiB that no hypervisor has."""
ATTEMPTS = 5
"""To meet an instance while it is being built, which takes about a second."""


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext, site: Site) -> None:
    """Other sites are not ours to break."""
    require_lab(context)


@pytest.fixture
def controller(context: SiteContext) -> Callable[..., str]:
    """`controller("systemctl", …)` → what the command states inside the controller."""
    return lambda *command: in_controller(context, *command)


@pytest.fixture
def on(site_host: Callable[[str], Host]) -> Callable[[str], Callable[..., str]]:
    """`on("services-1")("systemctl", …)` → what the command states on that host."""

    def host(name: str) -> Callable[..., str]:
        def run(*command: str) -> str:
            return str(site_host(name).check_output(" ".join(command)))

        return run

    return host


@pytest.fixture
def host_services(
    context: SiteContext, site_host: Callable[[str], Host], kubectl: Callable[..., str], http: requests.Session
) -> HostServices:
    """The clients of the hosts' services."""
    return HostServices(context, site_host, kubectl, http)


def host_of(context: SiteContext, role: str) -> str:
    """Name of the first host with a role."""
    return hosts_with(role, context.site, context.cloud_outputs)[0].name


def test_openstack_services(cloud: Connection, controller: Callable[..., str], site: Site) -> None:
    """Each service's main process is killed, all of them within seconds; systemd brings each back, and it answers."""
    assert site.cloud is not None
    questions = apis(cloud)
    units = [*questions, "neutron-rpc-server", "nova-conductor", "nova-scheduler", "memcached"]
    with concurrent.futures.ThreadPoolExecutor(len(units)) as pool:
        waiting = [pool.submit(killed_and_restarted, controller, unit, HEALED_SECONDS) for unit in units]
        killed = max(result.result() for result in waiting)
    questions["memcached"] = lambda: memcached_keeps(controller)
    questions["neutron-rpc-server"] = lambda: neutron_answers_agents(cloud, controller)
    for unit, question in questions.items():
        eventually(question, HEALED_SECONDS, f"{unit} answers")
    image = cloud.image.find_image(site.cloud.images[0].name, ignore_missing=False)
    plain = next(f.name for f in site.cloud.flavors if not f.accelerators)
    with small_flavor(cloud, plain, disk=TOO_LARGE) as flavor:
        nova_schedules(cloud, image.id, flavor, HEALED_SECONDS)
    eventually(lambda: nova_reports_since(cloud, killed), HEALED_SECONDS, "nova's services report")


def test_what_openstack_needs(cloud: Connection, controller: Callable[..., str]) -> None:
    """After the message broker and the database died, every API answers and every hypervisor reports again."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        units = ("rabbitmq-server", "mariadb")
        for result in [pool.submit(killed_and_restarted, controller, unit, HEALED_SECONDS) for unit in units]:
            result.result()
    begin = time.time()
    for name, question in apis(cloud).items():
        eventually(question, HEALED_SECONDS, f"{name} answers")
    eventually(lambda: nova_reports_since(cloud, begin), HEALED_SECONDS, "nova's services report")


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


def hypervisor(cloud: Connection, server: Any) -> str:
    """Waits until nova chose one for an instance; returns its name."""
    names: list[str] = []

    def chosen() -> bool:
        name = cloud.compute.get_server(server).hypervisor_hostname
        names.extend([str(name)] if name else [])
        return bool(names)

    # quickly: an instance is soon built
    eventually(chosen, HEALED_SECONDS, "nova has chosen a hypervisor", pause=0)
    return names[0]


def test_nova_compute_in_the_middle_of_a_build(
    cloud: Connection, controller: Callable[..., str], small_server: Callable[[], Any], context: SiteContext
) -> None:
    """The instance under way ends as nova's ERROR or ACTIVE, can be deleted, and the next one is built."""
    before = set(site_containers(context.site.name))

    def remove(server: Any) -> None:
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, wait=HEALED_SECONDS)

    for _ in range(ATTEMPTS):
        server = small_server()
        unit = f"nova-compute@{hypervisor(cloud, server)}"
        killed = kill(controller, unit)
        # who would carry it on has just died
        status = cloud.compute.get_server(server).status
        wait_for_restart(controller, unit, killed, HEALED_SECONDS)
        if status == "BUILD":
            break
        remove(server)
    else:
        pytest.fail(f"{ATTEMPTS} instances were built before nova-compute was killed")
    state = ""

    def settled() -> bool:
        nonlocal state
        state = str(cloud.compute.get_server(server).status)
        return state in ("ACTIVE", "ERROR")

    eventually(settled, HEALED_SECONDS, "the instance that was being built has an end")
    remove(server)
    after = small_server()
    eventually(lambda: cloud.compute.get_server(after).status == "ACTIVE", HEALED_SECONDS, "the next one is built")
    remove(after)
    eventually(
        lambda: set(site_containers(context.site.name)) == before, HEALED_SECONDS, "no container of either is left"
    )
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
    role: str, unit: str, host_services: HostServices, on: Callable[[str], Callable[..., str]]
) -> None:
    """Killed, it is there again within seconds and answers its clients, and the cluster has every node Ready."""
    context = host_services.context
    if role not in {r for host in hosts_with(role, context.site, context.cloud_outputs) for r in host.roles}:
        pytest.skip(f"the site has no host with the role {role}")
    host = host_of(context, role)
    killed = killed_and_restarted(on(host), unit, HEALED_SECONDS)
    eventually(lambda: QUESTIONS[unit](host_services, host, killed), HEALED_SECONDS, f"{unit} of {host} answers")
    eventually(lambda: all_ready(host_services.kubectl), HEALED_SECONDS, f"every node is Ready after {unit} died")


def all_ready(kubectl: Callable[..., str]) -> bool:
    """Whether every node is Ready."""
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    ready = [c["status"] == "True" for n in nodes for c in n["status"]["conditions"] if c["type"] == "Ready"]
    return bool(ready) and all(ready)


def test_proxy_of_the_nodes(
    context: SiteContext, on: Callable[[str], Callable[..., str]], kubectl: Callable[..., str]
) -> None:
    """Killed on every node, kube-proxy writes all its rules again, as it does once an hour: the nodes still lead to
    the ingress controller, and that to the services."""
    nodes = hosts_with("kube_node", context.site, context.cloud_outputs)
    killed = {node.name: float(on(node.name)("date", "+%s.%N")) for node in nodes}
    for node in nodes:
        on(node.name)("kill", "-9", on(node.name)("pgrep", "-x", "kube-proxy").strip())
    dns = json.loads(kubectl("get", "service", "kube-dns", "-n", "kube-system", "-o", "json"))["spec"]["clusterIP"]
    for node in nodes:
        run = on(node.name)
        synced = partial(wrote_all_rules, run, killed[node.name])
        eventually(synced, HEALED_SECONDS, f"kube-proxy of {node.name} has written all rules")
        reached = partial(answers, run, "timeout", "5", "bash", "-c", f"'</dev/tcp/{dns}/53'")
        eventually(reached, HEALED_SECONDS, f"the cluster's DNS answers {node.name}")
    for node in ingress_nodes(context.site, context.cloud_outputs):
        for service in published(context.site):
            if not service.health_path:
                continue
            name = service.host
            place = ("--resolve", f"{name}:{INGRESS}:{node.address}", f"https://{name}:{INGRESS}{service.health_path}")
            # the certificate is another check's; the load balancer begins with the same header
            command = ("curl", "-sSf", "--max-time", "30", "--insecure", "--haproxy-protocol", *place)
            eventually(partial(answers, on(node.name), *command), HEALED_SECONDS, f"{name} answers at {node.name}")


def answers(run: Callable[..., str], *command: str) -> bool:
    """Whether a command succeeds; raises where not."""
    run(*command)
    return True


def wrote_all_rules(run: Callable[..., str], since: float) -> bool:
    """Whether a node's kube-proxy has started since then and written its rules once."""
    figures = dict(
        line.rsplit(" ", 1)
        for line in run("curl", "-s", "http://127.0.0.1:10249/metrics").splitlines()
        if not line.startswith("#")
    )
    written = figures['kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}']
    return float(figures["process_start_time_seconds"]) > since - 1 and float(written) >= 1


def test_pod_of_a_service(
    kubectl: Callable[..., str], on: Callable[[str], Callable[..., str]], site: Site, http: requests.Session
) -> None:
    """The process of an ml-hub pod is killed; the same pod has a new container, and the hub answers."""
    hub = SERVICE.of(site)
    if hub is None:
        pytest.skip("the site has no ml-hub")
    pod = running_pods(kubectl, SERVICE.name, SYSTEM_NAMESPACE)[0]
    name, before = pod["metadata"]["name"], pod["status"]["containerStatuses"][0]
    node = on(pod["spec"]["nodeName"])
    node("kill", "-9", str(process_of(node, before["containerID"].removeprefix("containerd://"))))

    def container() -> dict[str, Any]:
        pod = json.loads(kubectl("get", "pod", "--namespace", SYSTEM_NAMESPACE, name, "--output", "json"))
        status: dict[str, Any] = pod["status"]["containerStatuses"][0]
        return status

    def back() -> bool:
        status = container()
        return bool(status["restartCount"] == before["restartCount"] + 1 and status["ready"])

    eventually(back, HEALED_SECONDS, f"{name} is Ready again")
    after = container()
    assert after["containerID"] != before["containerID"]
    ended = after["lastState"]["terminated"]
    assert (ended["containerID"], ended["exitCode"]) == (before["containerID"], 128 + signal.SIGKILL)

    def healthy() -> bool:
        answer = http.get(f"https://{hub.hostname}.{site.domain}/readyz", timeout=30)
        return (answer.status_code, answer.json()) == (200, {"status": "ok"})

    eventually(healthy, HEALED_SECONDS, "the hub answers")
