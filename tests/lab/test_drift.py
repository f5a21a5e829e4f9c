"""What was changed or removed by hand is named by `strata status`, and mended by `strata up`, which leaves no drift.

Everything is broken at once, looked at once and mended once: each look at a whole site takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from strata.engine.context import SiteContext
from strata.engine.kubectl import cluster_command
from strata.lab.network.container import container_name
from strata.lab.podman import podman
from strata.paths import REPOSITORY
from strata.secrets import SecretStore

from .commands import strata_json, up

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host


@dataclass
class Seen:
    """What `strata status` said."""

    exit_status: int
    drift: list[dict[str, str]]
    changed: int = 0
    by_layer: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.drift:
            self.by_layer.setdefault(one["layer"], set()).add((one["object"], one["property"]))


def look(context: SiteContext) -> Seen:
    """Runs `strata status`; every layer must have answered."""
    status, answer, error = strata_json(context, "status")
    assert answer, error
    assert answer["drift"]["unreachable"] == {}, answer["drift"]
    return Seen(status, answer["drift"]["drift"])


def break_openstack(context: SiteContext, cloud: Connection) -> None:
    """A flavor, a quota, an aggregate's metadata, a security rule, an instance."""
    assert context.site.cloud is not None
    name = context.site.name
    project = cloud.get_project(context.site.cloud.project.name)
    assert project is not None
    flavor = next(f for f in cloud.compute.flavors() if f.name == context.site.cloud.flavors[-1].name)
    cloud.compute.create_flavor_extra_specs(flavor, {"hw:by_hand": "yes"})
    cloud.set_compute_quotas(project.id, cores=context.site.cloud.project.quota.cores + 1)
    aggregate = next(a for a in cloud.compute.aggregates() if a.name == f"{name}-none")
    cloud.compute.set_aggregate_metadata(aggregate, {"by_hand": "yes"})
    group = next(cloud.network.security_groups(name=f"{name}-registry"))
    rules = cloud.network.security_group_rules(security_group_id=group.id, direction="ingress")
    cloud.network.delete_security_group_rule(next(r for r in rules if r.port_range_min))
    server = next(s for s in cloud.compute.servers(all_projects=True) if s.name == "worker-1")
    cloud.compute.delete_server(server)
    cloud.compute.wait_for_delete(server, wait=60)
    podman("rm", "--force", "--time", "0", container_name(name))


def break_hosts(site_host: Callable[[str], Host]) -> None:
    """A file's content, another's mode, a file that is gone, a service that was stopped."""
    services, gpu_worker = site_host("services-1"), site_host("gpu-worker-1")
    for host, command in (
        (services, "echo '# by hand' >> /etc/haproxy/haproxy.cfg"),
        (services, "chmod 0666 /etc/postgresql/*/main/pg_hba.conf"),
        (services, "systemctl stop docker-registry"),
        (gpu_worker, "rm /etc/systemd/system/kubelet.service"),
    ):
        done = host.run(command)
        assert done.rc == 0, done.stderr


def break_cluster(context: SiteContext, kubectl: Callable[..., str]) -> None:
    """A label, a taint, a tenant's quota, an object that is gone, a release's values."""
    assert context.site.cluster is not None
    marks = context.site.cluster.gpu_nodes
    kubectl("label", "node", "gpu-worker-1", f"{next(iter(marks.labels))}=by-hand", "--overwrite")
    kubectl("taint", "node", "gpu-worker-1", f"{marks.taints[0]}-")
    kubectl("delete", "priorityclass", "batch")
    tenant = context.site.platform.tenants[0].name
    quota = json.loads(kubectl("get", "resourcequota", "-n", tenant, "-o", "json"))["items"][0]["metadata"]["name"]
    release, chart = f"tenant-{tenant}", str(REPOSITORY / "helm" / "tenant")
    options = ("--namespace", "strata-system", "--reuse-values", "--set", "quota.memory=3Gi")
    cluster_command(context, "helm", "upgrade", release, chart, *options)
    kubectl("patch", "resourcequota", quota, "-n", tenant, "--type=merge", "-p", '{"spec":{"hard":{"pods":"99"}}}')


@pytest.fixture(scope="module")
def broken(
    context: SiteContext,
    cloud: Connection,
    site_host: Callable[[str], Host],
    kubectl: Callable[..., str],
) -> Iterator[Seen]:
    """What `status` says of a site where something of every kind was changed by hand."""
    before = look(context)
    if before.exit_status != 0:  # what another test left is not ours to judge
        up(context.site_file)
        before = look(context)
    assert (before.exit_status, before.drift) == (0, [])
    try:
        break_cluster(context, kubectl)
        break_hosts(site_host)
        break_openstack(context, cloud)
        yield look(context)
    finally:
        up(context.site_file)


@pytest.fixture(scope="module")
def mended(context: SiteContext, broken: Seen) -> Seen:
    """What `status` says after `up`."""
    answer = up(context.site_file)
    seen = look(context)
    seen.changed = int(answer["changed"])
    return seen


def test_an_untouched_site_has_no_drift_and_a_touched_one_has(broken: Seen) -> None:
    assert broken.exit_status == 1
    assert broken.drift


def test_openstack(context: SiteContext, broken: Seen) -> None:
    """A flavor, a quota, an aggregate's metadata, a security rule, an instance and the network agent are named, and
    nothing else is."""
    assert context.site.cloud is not None
    assert broken.by_layer["cloud"] == {
        (f"flavor {context.site.cloud.flavors[-1].name}", 'extraSpecs["hw:by_hand"]'),
        ("quota set project", "cores"),
        ("aggregate none", "metadata.by_hand"),
        ("sec group rule registry-registry", "state"),
        ("instance worker-1", "state"),
        (f"network agent: container {container_name(context.site.name)}", "state"),
    }
    cores = context.site.cloud.project.quota.cores
    quota = next(d for d in broken.drift if d["property"] == "cores")
    assert (quota["wanted"], quota["found"]) == (str(cores), str(cores + 1))


def test_hosts(broken: Seen, secrets: SecretStore) -> None:
    """Files, a service and the host that is gone are named; no secret is shown."""
    found = {(name.rpartition("/")[2], key) for name, key in broken.by_layer["hosts"]}
    assert found == {
        ("haproxy.cfg", "content"),
        ("pg_hba.conf", "mode"),
        ("services-1: docker-registry", "ActiveState"),
        ("worker-1", "SSH"),
    }
    text = json.dumps(broken.drift)
    assert not [name for name, value in secrets.known().items() if value in text]


def test_cluster(context: SiteContext, broken: Seen) -> None:
    """A node's label and taint, a unit's file, and the node that went with its instance are named."""
    assert context.site.cluster is not None
    label = next(iter(context.site.cluster.gpu_nodes.labels))
    found = {(name.rpartition("/")[2], key) for name, key in broken.by_layer["cluster"]}
    assert found >= {
        ("node gpu-worker-1", f"label {label}"),
        ("node gpu-worker-1", "taint"),
        ("kubelet.service", "state"),
    }


def test_platform(context: SiteContext, broken: Seen) -> None:
    """A release's values, a tenant's quota and an object that is gone are named."""
    tenant = context.site.platform.tenants[0].name
    found = {(name.partition(": ")[2] or name, key) for name, key in broken.by_layer["platform"]}
    quotas = [key for name, key in found if name.startswith(f"ResourceQuota {tenant}/")]
    assert "spec.hard.pods" in quotas, found
    assert ("PriorityClass batch", "state") in found
    assert any(name == f"release tenant-{tenant}" and "memory" in key for name, key in found), found


def test_up_mends_it_and_leaves_no_drift(mended: Seen) -> None:
    assert (mended.exit_status, mended.drift) == (0, [])
    assert mended.changed >= 10


def test_what_was_mended_works(
    mended: Seen, context: SiteContext, site_host: Callable[[str], Host], kubectl: Callable[..., str]
) -> None:
    """The files are right, the services run, the worker has joined again, the tenant has its quota."""
    services = site_host("services-1")
    assert "by hand" not in services.file("/etc/haproxy/haproxy.cfg").content_string
    assert services.service("docker-registry").is_running
    assert site_host("gpu-worker-1").service("kubelet").is_running
    node = json.loads(kubectl("get", "node", "worker-1", "-o", "json"))
    assert any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
    tenant = context.site.platform.tenants[0]
    hard = json.loads(kubectl("get", "resourcequota", "-n", tenant.name, "-o", "json"))["items"][0]["spec"]["hard"]
    assert hard["pods"] == "100"
    assert hard["requests.memory"] == "16Gi"
