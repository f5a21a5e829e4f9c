"""Questions to the services of a running site that each only one of them can answer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import requests

from strata.catalogue.published import published
from strata.site.context import SiteContext
from strata.site.host_list import hosts
from strata.verify import pods
from strata_bench.waiting import eventually

from .commands import psql
from .scarce import image, registry

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

OPENSTACK_PYTHON = "/opt/openstack/bin/python"
NETWORK_BY_REMOTE_CALL = """
import sys
import oslo_messaging
from oslo_config import cfg

oslo_messaging.set_transport_defaults(control_exchange="neutron")
cfg.CONF([], project="neutron", default_config_files=["/etc/neutron/neutron.conf"])
target = oslo_messaging.Target(topic="q-plugin", version="1.6")
client = oslo_messaging.get_rpc_client(oslo_messaging.get_rpc_transport(cfg.CONF), target, timeout=60)
network = client.call({"is_admin": True}, "get_network_details", network=sys.argv[1], agent_id="test", host="test")
print(network["name"])
"""
STORE_AND_FETCH = """
exec 3<>/dev/tcp/127.0.0.1/11211
printf 'set %s 0 60 2\\r\\nok\\r\\nget %s\\r\\nquit\\r\\n' "$0" "$0" >&3
cat <&3
"""


def apis(cloud: Connection) -> dict[str, Callable[[], bool]]:
    """By unit, a question to OpenStack that only works when the unit does."""
    identity: Any = cloud.identity  # the SDK types it as either version's
    return {
        "keystone": lambda: bool(list(identity.projects())) and bool(cloud.authorize()),
        "placement": lambda: bool(list(cloud.placement.resource_providers())),
        "glance": lambda: bool(list(cloud.image.images())),
        "neutron": lambda: bool(list(cloud.network.networks())),
        "nova-api": lambda: bool(list(cloud.compute.flavors())),
    }


def nova_reports_since(cloud: Connection, since: float) -> bool:
    """Whether each of nova's services is up and reported after that time, nova-compute by way of nova-conductor."""
    services = list(cloud.compute.services())
    # nova calls a service up for two minutes after its end; a new report is what counts
    reported = [datetime.fromisoformat(f"{s.updated_at[:19]}+00:00").timestamp() for s in services]
    return bool(services) and all(s.state == "up" for s in services) and min(reported) > since


def nova_schedules(cloud: Connection, image_id: str, too_large: str, seconds: float) -> None:
    """nova-conductor takes an instance to nova-scheduler, which must say that no host is large enough.

    Args:
        cloud: as administrator.
        image_id: glance's.
        too_large: id of a flavor that no hypervisor has room for.
        seconds: how long the answer may take.
    """
    compute = cloud.compute
    name = f"test-{uuid.uuid4().hex[:8]}"
    server = compute.create_server(name=name, flavor_id=too_large, image_id=image_id, networks="none")
    try:
        eventually(lambda: compute.get_server(server.id).status == "ERROR", seconds, "nova-scheduler answers")
        assert "No valid host was found" in compute.get_server(server.id).fault["message"]
    finally:
        compute.delete_server(server.id)
        compute.wait_for_delete(server, wait=int(seconds))


def neutron_answers_agents(cloud: Connection, controller: Callable[..., str]) -> bool:
    """Whether neutron-rpc-server shows the name of a network as it does to an agent."""
    network = next(cloud.network.networks())
    return bool(controller(OPENSTACK_PYTHON, "-c", NETWORK_BY_REMOTE_CALL, network.id) == network.name)


def memcached_keeps(controller: Callable[..., str]) -> bool:
    """Whether memcached has what it was given."""
    key = f"test-{uuid.uuid4().hex[:8]}"
    answer = controller("timeout", "10", "bash", "-c", STORE_AND_FETCH, key)
    return answer.split() == ["STORED", "VALUE", key, "0", "2", "ok", "END"]


@dataclass(frozen=True)
class HostServices:
    """Asks the services of the hosts layer and of the cluster's nodes, as their clients do.

    Every question takes the host that has the service, and the time since which it must have answered.

    Args:
        context: the site.
        site_host: connects to a host by its name.
        kubectl: runs kubectl.
        http: finds the names of the site at its load balancer.
    """

    context: SiteContext
    site_host: Callable[[str], Host]
    kubectl: Callable[..., str]
    http: requests.Session

    def postgresql(self, host: str, since: float) -> bool:
        """A server that was started since then reckons."""
        started = float(psql(self.site_host(host), "postgres", "select extract(epoch from pg_postmaster_start_time())"))
        return started > since

    def kine(self, host: str, since: float) -> bool:  # noqa: ARG002  # there is one datastore, and a write is new
        """The API server writes into the datastore and reads it back."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        try:
            self.kubectl("create", "configmap", name, f"--from-literal=key={name}", timeout=60)
            config_map = json.loads(self.kubectl("get", "configmap", name, "--output", "json", timeout=60))
        finally:
            self.kubectl("delete", "configmap", name, "--ignore-not-found", timeout=60)
        return bool(config_map["data"] == {"key": name})

    def registry(self, host: str, since: float) -> bool:  # noqa: ARG002
        """An image is there under its digest."""
        repository, digest = image(self.context, "pause")
        with registry(self.context) as client:
            return client.digest(repository, digest) == digest

    def load_balancer(self, host: str, since: float) -> bool:  # noqa: ARG002
        """Every service of the platform that shows of its health is well, through the load balancer."""
        urls = [s.health_url for s in published(self.context.site) if s.health_path]
        return bool(urls) and all(self.http.get(url, timeout=30).status_code == 200 for url in urls)

    def nfs(self, host: str, since: float) -> bool:  # noqa: ARG002
        """A node sees a file that was just put there."""
        site = self.context.site
        assert site.hosts.nfs is not None
        machines = {h.name: h for h in hosts(site, self.context.cloud_outputs)}
        client = self.site_host(
            next(name for name, machine in machines.items() if name != host and "kube_node" in machine.roles)
        )
        export, file = site.hosts.nfs.exports[0], f".test-{uuid.uuid4().hex[:8]}"
        self.site_host(host).check_output(f"touch {export.path}/{file}")
        try:
            return file in str(client.check_output(f"nfs-ls 'nfs://{machines[host].address}/{export.name}?version=4'"))
        finally:
            self.site_host(host).check_output(f"rm {export.path}/{file}")

    def containerd(self, host: str, since: float) -> bool:  # noqa: ARG002  # a pod that is made now runs now
        """A new pod runs on the node."""
        images = self.context.image_outputs
        assert images is not None
        name = f"test-{uuid.uuid4().hex[:8]}"
        tolerations = [{"operator": "Exists"}]
        request = pods.PodRequest(name, images.images["pod-base"], ["echo", name], node=host, tolerations=tolerations)
        output, node = pods.run(self.kubectl, "default", request)
        return (output.strip(), node) == (name, host)

    def kubelet(self, host: str, since: float) -> bool:
        """The node gave a sign of life since then."""
        lease = json.loads(self.kubectl("get", "lease", host, "--namespace", "kube-node-lease", "--output", "json"))
        renewed: str = lease["spec"]["renewTime"]
        return datetime.fromisoformat(renewed).timestamp() > since


QUESTIONS: dict[str, Callable[[HostServices, str, float], bool]] = {
    "postgresql@15-main": HostServices.postgresql,
    "kine": HostServices.kine,
    "docker-registry": HostServices.registry,
    "haproxy": HostServices.load_balancer,
    "nfs-ganesha": HostServices.nfs,
    "containerd": HostServices.containerd,
    "kubelet": HostServices.kubelet,
}
"""By unit."""


def process_of(run: Callable[..., str], container: str) -> int:
    """Process id of a container's first process, as its node sees it.

    Args:
        run: runs a command on the node and returns its output.
        container: containerd's id.
    """
    rows = [line.split() for line in run("ctr", "--namespace", "k8s.io", "tasks", "list").splitlines()]
    return next(int(row[1]) for row in rows if row[0] == container)
