"""`strata status` names what was changed or removed outside Strata; `strata up` repairs all of it and nothing else.

Everything is broken at once and repaired once: each look at a whole site takes seconds. The nightly suite does so again
with an instance that is gone, which takes a minute more to come back as a node.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata.engine.playbook_state import reason_to_run
from strata.site.context import SiteContext
from strata.site.secrets import SecretStore
from strata.verify.waiting import settled
from strata_bench.browser import browser
from strata_lab.network.container import container_name

from .cloud_drift import OBJECTS, CloudDrift, as_declared, break_cloud, changed_parts
from .commands import strata, strata_json, up
from .drift_faults import HAPROXY, OPENSTACK_FILE, break_cluster, break_hosts, break_openstack
from .identities import Identities, identities
from .needles import Needles
from .pages import WIDTH, rows
from .processes import Watched
from .site_secrets import shows_no_secret, site_needles, watched_up

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host


WORKER = "worker-1"
"""The instance that is deleted by hand in the nightly suite."""

Row = tuple[str, str, str, str, str]
"""Layer, object, property, desired, actual."""


@dataclass
class Seen:
    """What `strata status` reported.

    Args:
        exit_status: of the command.
        drift: everything that it named.
    """

    exit_status: int
    drift: list[Row]

    def layer(self, name: str) -> set[Row]:
        """What was named of one layer."""
        return {row for row in self.drift if row[0] == name}


@dataclass
class Broken:
    """A site where something of every kind was modified outside Strata.

    Args:
        seen: what `status` states of it.
        page: the page of `strata report`.
        before: identities of the parts before anything was changed.
        configuration: content of HAPROXY before and after the change.
        cloud: what was changed of the cloud that Pulumi's provider does not see.
        repaired: whether `up` has repaired all of it meanwhile.
    """

    seen: Seen
    page: Path
    before: Identities = field(repr=False)
    configuration: tuple[bytes, bytes] = field(repr=False)
    cloud: CloudDrift = field(repr=False)
    repaired: bool = False


@dataclass
class Repaired:
    """The same site after `up`.

    Args:
        seen: what `status` states then.
        changed: how many changes `up` counted, by step.
        up: what all processes of this machine showed meanwhile.
        after: identities of the parts.
    """

    seen: Seen
    changed: dict[str, int]
    up: Watched = field(repr=False)
    after: Identities = field(repr=False)


def look(context: SiteContext) -> Seen:
    """Runs `strata status`; every layer must have answered."""
    status, answer, error = strata_json(context, "status")
    assert answer, error
    assert answer["drift"]["unreachable"] == {}, answer["drift"]
    drift = [(d["layer"], d["object"], d["property"], d["wanted"], d["found"]) for d in answer["drift"]["drift"]]
    return Seen(status, drift)


@pytest.fixture(scope="module", params=[None, pytest.param(WORKER, marks=pytest.mark.nightly)], ids="{} lost".format)
def lost(request: pytest.FixtureRequest) -> str | None:
    """The instance that is deleted, if one is."""
    return None if request.param is None else str(request.param)


@pytest.fixture(scope="module")
def broken(
    context: SiteContext,
    cloud: Connection,
    site_host: Callable[[str], Host],
    kubectl: Callable[..., str],
    lost: str | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Broken]:
    """A site where something of every kind was modified outside Strata."""
    seen = look(context)
    # what another test left, or an edit of the repository asks for, is not ours to judge
    if seen.exit_status != 0 or any(reason_to_run(context, playbook) for playbook in ("openstack", "hosts", "cluster")):
        up(context.site_file)
        seen = look(context)
    assert (seen.exit_status, seen.drift) == (0, [])
    before = identities(context, cloud, kubectl, without=lost)
    page = tmp_path_factory.mktemp("drifted") / "report.html"
    damage: Broken | None = None
    changed: CloudDrift | None = None
    try:
        break_cluster(context, kubectl)
        configuration = break_hosts(site_host)
        changed = break_cloud(context, cloud)
        break_openstack(context, cloud, lost)
        seen = look(context)
        report = strata("report", context.site_file, "-o", page)
        assert report.returncode == 0, report.stderr
        damage = Broken(seen, page, before, configuration, changed)
        yield damage
    finally:
        if changed is not None:
            changed.remove(cloud)
        if damage is None or not damage.repaired:
            up(context.site_file)


@pytest.fixture(scope="module")
def needles(context: SiteContext) -> Needles:
    """The site's secrets."""
    return site_needles(context)


@pytest.fixture(scope="module")
def repaired(
    context: SiteContext,
    cloud: Connection,
    kubectl: Callable[..., str],
    broken: Broken,
    lost: str | None,
    needles: Needles,
    tmp_path_factory: pytest.TempPathFactory,
) -> Repaired:
    """The same site after `up`, which runs every playbook and program; it is watched meanwhile."""
    done = watched_up(context, tmp_path_factory.mktemp("repair") / "up", needles, "--json")
    changed = {step["name"]: step["changed"] for step in json.loads(done.output)["steps"] if step["changed"]}
    seen = look(context)
    broken.repaired = (seen.exit_status, seen.drift) == (0, [])
    return Repaired(seen, changed, done, identities(context, cloud, kubectl, without=lost))


def test_an_untouched_site_has_no_drift_and_a_touched_one_has(broken: Broken) -> None:
    """The fixture saw none before; the exit status states that there is some."""
    assert broken.seen.exit_status == 1
    assert broken.seen.drift


def test_openstack(context: SiteContext, broken: Broken, lost: str | None) -> None:
    """A file's mode, a flavor, a quota, an aggregate's metadata, a security rule, an instance, the network agent, and
    what the provider does not see of ports, groups, subnets and interfaces are named, and nothing else is."""
    assert context.site.cloud is not None
    assert context.site.cloud.project.quota is not None
    cores = context.site.cloud.project.quota.cores
    instances = {("cloud", f"instance {lost}", "state", "present", "missing")} if lost else set()
    assert broken.seen.layer("cloud") == instances | broken.cloud.rows | {
        ("cloud", f"controller: {OPENSTACK_FILE}", "mode", "0755", "0777"),
        ("cloud", f"flavor {context.site.cloud.flavors[-1].name}", 'extraSpecs["hw:by_hand"]', "missing", "yes"),
        ("cloud", "quota set project", "cores", str(cores), str(cores + 1)),
        ("cloud", "aggregate none", "metadata.by_hand", "missing", "yes"),
        ("cloud", "sec group rule registry-registry-kube_node", "state", "present", "missing"),
        (
            "cloud",
            f"network agent: container {container_name(context.site.name)}",
            "state",
            "running",
            "missing",
        ),
    }


def test_hosts(broken: Broken, lost: str | None, secrets: SecretStore) -> None:
    """Files, a service and the host that is gone are named, and nothing else is; no secret is shown."""
    drift = broken.seen.layer("hosts")
    content = next(row for row in drift if row[2] == "content")
    algorithm = content[3].partition(":")[0]
    desired, changed = (hashlib.new(algorithm, text).hexdigest()[:12] for text in broken.configuration)
    silent = {row for row in drift if row[2] == "SSH"}
    assert {row[:4] for row in silent} == ({("hosts", lost, "SSH", "answers")} if lost else set()), silent
    assert all("No route to host" in row[4] or "timed out" in row[4] for row in silent), silent
    assert drift - silent == {
        ("hosts", f"services-1: {HAPROXY}", "content", f"{algorithm}:{desired}", f"{algorithm}:{changed}"),
        ("hosts", "services-1: /etc/postgresql/15/main/pg_hba.conf", "mode", "0640", "0666"),
        ("hosts", "services-1: docker-registry", "ActiveState", "active", "inactive"),
    }
    text = json.dumps(broken.seen.drift)
    assert not [name for name, value in secrets.known().items() if value in text]


def test_cluster(context: SiteContext, broken: Broken, lost: str | None) -> None:
    """A node's label and taint, a unit's file, and the node that went with its instance are named, and nothing else
    is."""
    assert context.site.cluster is not None
    marks = context.site.cluster.gpu_nodes
    label, value = next(iter(marks.labels.items()))
    drift = broken.seen.layer("cluster")
    assert drift - {node_gone(drift, lost)} == {
        ("cluster", "node gpu-worker-1", f"label {label}", value, "by-hand"),
        ("cluster", "node gpu-worker-1", "taint", marks.taints[0], "missing"),
        ("cluster", "gpu-worker-1: /etc/systemd/system/kubelet.service", "state", "file", "missing"),
    }


def node_gone(drift: Iterable[tuple[str, ...]], lost: str | None) -> tuple[str, ...] | None:
    """How the node of the instance that is gone is named, once its control plane has noticed."""
    return next((row for row in drift if row[:4] == ("cluster", f"node {lost}", "state", "Ready")), None)


def test_platform(context: SiteContext, broken: Broken) -> None:
    """A release's values, a tenant's quota and an object that is gone are named, and nothing else is."""
    tenant = context.site.platform.tenants[0].name
    assert broken.seen.layer("platform") == {
        ("platform", "release cluster-base", "revision", "the one that up made", "modified outside Strata"),
        ("platform", "release cluster-base: PriorityClass batch", "state", "present", "missing"),
        ("platform", f"release tenant-{tenant}", "values.quota.memory", "16Gi", "3Gi"),
        ("platform", f"release tenant-{tenant}: ResourceQuota {tenant}/{tenant}", "spec.hard.pods", "500", "99"),
    }


def test_the_page_shows_what_has_drifted(broken: Broken, lost: str | None) -> None:
    """`strata report` looks for itself: a row of its page for each object, property, desired and actual value."""
    with browser() as window:
        window.open(broken.page, width=WIDTH)
        shown = rows(window, "drift")
    named, drift = node_gone(shown, lost), broken.seen.drift
    assert set(shown) - {named} == set(drift) - {node_gone(drift, lost)}


def test_up_repairs_it_and_leaves_no_drift(lost: str | None, repaired: Repaired) -> None:
    """Each object of the cloud, the network agent, a file and two releases are changed; no step without drift changes
    any."""
    assert (repaired.seen.exit_status, repaired.seen.drift) == (0, [])
    assert repaired.changed.keys() == {"controller", "OpenStack", "cloud", "hosts", "cluster", "platform"}
    assert {name: repaired.changed[name] for name in ("controller", "OpenStack", "cloud", "platform")} == {
        "controller": 1,
        "OpenStack": 1,
        "cloud": OBJECTS + (5 if lost else 4),
        "platform": 2,
    }


def test_no_process_shows_a_secret_meanwhile(context: SiteContext, repaired: Repaired, needles: Needles) -> None:
    """No command line, no environment on this machine and no output holds one while `up` runs every playbook and
    program."""
    assert shows_no_secret(context, repaired.up, needles)


def test_up_touches_nothing_else(
    context: SiteContext, broken: Broken, repaired: Repaired, kubectl: Callable[..., str]
) -> None:
    """Only what was broken was replaced, restarted, edited or written again; the load balancer and PostgreSQL take
    their files while they run."""
    before, after = broken.before, repaired.after
    changed = {part for part in before.keys() & after.keys() if before[part] != after[part]}
    assert {part.partition(" for ")[0] for part in changed} == changed_parts(context) | {
        f"container {container_name(context.site.name)}",
        f"rule {context.site.name}-registry: ingress IPv4 tcp 5000-5000 {context.site.name}-kube-node",
        f"file controller:{OPENSTACK_FILE}",
        f"file services-1:{HAPROXY}",
        "file services-1:/etc/postgresql/15/main/pg_hba.conf",
        "unit services-1:docker-registry.service",
        "file gpu-worker-1:/etc/systemd/system/kubelet.service",
        "unit gpu-worker-1:kubelet.service",
        "PriorityClass /batch",
        "release cluster-base",
        f"release tenant-{context.site.platform.tenants[0].name}",
    }
    gone = before.keys() - after.keys()
    # the daemon sets of GPU nodes have no pod on a node without its label
    of_gpu_nodes = gpu_node_daemon_sets(context, kubectl)
    pods = {part for part in gone if part.rpartition("-")[0] in of_gpu_nodes}
    assert sorted(part.rpartition("-")[0] for part in pods) == sorted(of_gpu_nodes)
    assert {part for part in gone - pods if not rewritten(part)} == set()
    assert {part for part in after.keys() - before.keys() if not (rewritten(part) or part.startswith("pod "))} == set()


def gpu_node_daemon_sets(context: SiteContext, kubectl: Callable[..., str]) -> set[str]:
    """`pod <namespace>/<name>` of each daemon set that asks for a label of the GPU nodes."""
    assert context.site.cluster is not None
    labels = context.site.cluster.gpu_nodes.labels.keys()
    listed = json.loads(kubectl("get", "daemonsets", "--all-namespaces", "--output", "json"))["items"]
    return {
        f"pod {each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in listed
        if labels & each["spec"]["template"]["spec"].get("nodeSelector", {}).keys()
    }


def rewritten(part: str) -> bool:
    """A file whose desired content has changed: the new instance may have another address."""
    return part.startswith("file ")


def test_what_was_repaired_works(
    repaired: Repaired, context: SiteContext, site_host: Callable[[str], Host], kubectl: Callable[..., str]
) -> None:
    """The files are right, the services run, the worker has joined again, the tenant has its quota."""
    services, gpu_worker = site_host("services-1"), site_host("gpu-worker-1")
    assert "by hand" not in services.file(HAPROXY).content_string
    assert services.file("/etc/postgresql/15/main/pg_hba.conf").mode == 0o640
    assert services.service("docker-registry").is_running
    assert gpu_worker.file("/etc/systemd/system/kubelet.service").is_file
    assert gpu_worker.service("kubelet").is_running

    def listed() -> dict[str, dict[str, Any]]:
        return {n["metadata"]["name"]: n for n in json.loads(kubectl("get", "nodes", "-o", "json"))["items"]}

    def ready(nodes: dict[str, dict[str, Any]]) -> bool:
        return any(c["type"] == "Ready" and c["status"] == "True" for c in nodes[WORKER]["status"]["conditions"])

    nodes = settled(listed, ready)
    assert ready(nodes)
    assert context.site.cluster is not None
    marks, marked = context.site.cluster.gpu_nodes, nodes["gpu-worker-1"]
    assert marks.labels.items() <= marked["metadata"]["labels"].items()
    assert marks.taints[0] in {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in marked["spec"]["taints"]}
    assert kubectl("get", "priorityclass", "batch", "-o", "name")
    tenant = context.site.platform.tenants[0]
    hard = json.loads(kubectl("get", "resourcequota", tenant.name, "-n", tenant.name, "-o", "json"))["spec"]["hard"]
    assert hard["pods"] == "500"
    assert hard["requests.memory"] == "16Gi"


def test_the_cloud_is_as_declared(broken: Broken, repaired: Repaired, context: SiteContext, cloud: Connection) -> None:
    """OpenStack itself has the flavor, quota, aggregate, rule, ports and instance of the site file again."""
    assert as_declared(context, cloud, broken.cloud)
    declared, name = context.site.cloud, context.site.name
    assert declared is not None
    flavor = next(f for f in cloud.compute.flavors(get_extra_specs=True) if f.name == declared.flavors[-1].name)
    assert flavor.extra_specs
    assert "hw:by_hand" not in flavor.extra_specs
    project = cloud.get_project(declared.project.name)
    assert project is not None
    assert declared.project.quota is not None
    assert cloud.get_compute_quotas(project.id).cores == declared.project.quota.cores
    assert "by_hand" not in next(a for a in cloud.compute.aggregates() if a.name == f"{name}-none").metadata
    group = next(cloud.network.security_groups(name=f"{name}-registry"))
    rules = cloud.network.security_group_rules(security_group_id=group.id, direction="ingress")
    assert sorted(r.port_range_min for r in rules) == [5000, 5000, 5000, 5001]
    assert [s.status for s in cloud.compute.servers(all_projects=True) if s.name == WORKER] == ["ACTIVE"]
