"""Changes of a running site outside Strata, one of every kind, that `status` names and `up` repairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from strata.access.helm import helm
from strata.access.podman import podman
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata_lab.network.container import container_name

from .healing import in_controller

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

HAPROXY = "/etc/haproxy/haproxy.cfg"
OPENSTACK_FILE = "/usr/local/lib/openstack/wait_for_queue.py"
"""On the controller; no service is restarted for it."""


def break_openstack(context: SiteContext, cloud: Connection, lost: str | None) -> None:
    """A file's mode on the controller, a flavor, a quota, an aggregate's metadata, a security rule, the network agent,
    an instance."""
    assert context.site.cloud is not None
    name = context.site.name
    in_controller(context, "chmod", "0777", OPENSTACK_FILE)
    quota = context.site.cloud.project.quota
    assert quota is not None
    project = cloud.get_project(context.site.cloud.project.name)
    assert project is not None
    flavor = next(f for f in cloud.compute.flavors() if f.name == context.site.cloud.flavors[-1].name)
    cloud.compute.create_flavor_extra_specs(flavor, {"hw:by_hand": "yes"})
    cloud.set_compute_quotas(project.id, cores=quota.cores + 1)
    aggregate = next(a for a in cloud.compute.aggregates() if a.name == f"{name}-none")
    cloud.compute.set_aggregate_metadata(aggregate, {"by_hand": "yes"})
    group = next(cloud.network.security_groups(name=f"{name}-registry"))
    rules = cloud.network.security_group_rules(security_group_id=group.id, direction="ingress")
    nodes = next(cloud.network.security_groups(name=f"{name}-kube-node"))
    cloud.network.delete_security_group_rule(next(r for r in rules if r.remote_group_id == nodes.id))
    if lost is not None:
        server = next(s for s in cloud.compute.servers(all_projects=True) if s.name == lost)
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, wait=180)
    podman("rm", "--force", "--time", "0", container_name(name))


def break_hosts(site_host: Callable[[str], Host]) -> tuple[bytes, bytes]:
    """A file's content, which is returned as it was and as it is, another's mode, a file that is gone, a service that
    was stopped."""
    services, gpu_worker = site_host("services-1"), site_host("gpu-worker-1")
    before: bytes = services.file(HAPROXY).content
    for host, command in (
        (services, f"echo '# by hand' >> {HAPROXY}"),
        (services, "chmod 0666 /etc/postgresql/*/main/pg_hba.conf"),
        (services, "systemctl stop docker-registry"),
        (gpu_worker, "rm /etc/systemd/system/kubelet.service"),
    ):
        done = host.run(command)
        assert done.rc == 0, done.stderr
    return before, services.file(HAPROXY).content


def break_cluster(context: SiteContext, kubectl: Callable[..., str]) -> None:
    """A label, a taint, a tenant's quota, an object that is gone, a release's values."""
    assert context.site.cluster is not None
    marks = context.site.cluster.gpu_nodes
    kubectl("label", "node", "gpu-worker-1", f"{next(iter(marks.labels))}=by-hand", "--overwrite")
    kubectl("taint", "node", "gpu-worker-1", f"{marks.taints[0]}-")
    kubectl("delete", "priorityclass", "batch")
    tenant = context.site.platform.tenants[0].name
    release, chart = f"tenant-{tenant}", str(REPOSITORY / "helm" / "tenant")
    options = ("--namespace", "strata-system", "--reuse-values", "--set", "quota.memory=3Gi")
    helm(context, "upgrade", release, chart, *options)
    kubectl("patch", "resourcequota", tenant, "-n", tenant, "--type=merge", "-p", '{"spec":{"hard":{"pods":"99"}}}')
