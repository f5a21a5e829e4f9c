"""The site file is edited, `plan` shows what will be, `up` makes it so; edited back, the site is as before.

Nearly everything is edited at once, because each run of `up` costs more than what it changes: a GPU node is added, two
quotas grow, an operator gets a key, PostgreSQL gets a setting that it takes over while it runs, a password is rotated,
a certificate renewed. One that PostgreSQL takes over when it is started only comes after that. Back again, the node is
drained before its instance goes.

The run that makes the changes is killed once in each layer first, where a release is missing too: what the tests find
is what the last run completed.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from strata.access.helm import helm
from strata.inventory.port_numbers import POSTGRESQL
from strata.inventory.topology import database_secret
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.verify.waiting import settled
from strata_bench.waiting import eventually
from strata_services.portal.service import SERVICE as PORTAL

from .authentication import reached, served_certificate
from .commands import psql, strata, strata_json, up
from .editing import edit
from .healing import nothing_left_over
from .killing import kill_at, workers
from .workload import WORKLOAD, start, where

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

NODE = "gpu-worker-change"
OPERATOR = "changetest"
SECRET = database_secret("ml_hub")
CERTIFICATE = "registry"
KILLED_AT = (
    rf"cloud: \d+ s, creating instance {NODE}",
    r"  hosts: \d+ s, base : ",
    r"  cluster: \d+ s, (kube_node|kubernetes_common) : ",
    rf"platform: \d+ s, creating release {PORTAL.name}",
)
"""Lines of the output of `up`, by layer."""
Kubectl = Callable[..., str]


@dataclass
class Changed:
    """What the edited file led to.

    Args:
        file: the edited one.
        plan: what `strata plan` reported before.
        key_file: private key of the new operator.
        serial: of the registry's certificate before.
        password: of the database before.
        started: when PostgreSQL was started before.
        nodes: names of the cluster's nodes before.
        servers: name to id of the instances before.
        back: whether the site has been brought back to its own file.
    """

    file: Path
    plan: str
    key_file: Path
    serial: int
    password: str = field(repr=False)
    started: str
    nodes: set[str]
    servers: dict[str, str]
    back: bool = False


def server_ids(cloud: Connection) -> dict[str, str]:
    """Name to id of all instances."""
    return {server.name: server.id for server in cloud.compute.servers(all_projects=True)}


def node_names(kubectl: Kubectl) -> set[str]:
    """Names of the cluster's nodes."""
    return {node["metadata"]["name"] for node in json.loads(kubectl("get", "nodes", "-o", "json"))["items"]}


def setting(server: Host, name: str) -> str:
    """A setting of the running PostgreSQL."""
    return psql(server, "postgres", f"show {name}")


def started(server: Host) -> str:
    """When PostgreSQL was started."""
    return psql(server, "postgres", "select pg_postmaster_start_time()")


def ready(context: SiteContext, http: requests.Session) -> bool:
    """Whether ml-hub answers from its database."""
    return http.get(f"https://ml-hub.{context.site.domain}/readyz", timeout=30).status_code == 200


@pytest.fixture(scope="module")
def changed(
    context: SiteContext,
    tmp_path_factory: pytest.TempPathFactory,
    site_host: Callable[[str], Host],
    kubectl: Kubectl,
    cloud: Connection,
    images: ImageOutputs,
) -> Iterator[Changed]:
    """The site as an edited file states; afterwards, whatever happened, as its own file states."""
    assert context.cloud_outputs is not None
    directory = tmp_path_factory.mktemp("change")
    key = ed25519.Ed25519PrivateKey.generate()
    key_file = directory / "operator"
    key_file.touch(mode=0o600)
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()

    def more(content: dict[str, Any]) -> None:
        cloud = content["cloud"]
        model = next(i for i in cloud["instances"] if "gpu_node" in i["roles"])
        cloud["instances"].append({**copy.deepcopy(model), "name": NODE})  # a site file has no aliases
        cloud["project"]["quota"]["cores"] += 4
        content["platform"]["tenants"][0]["quota"]["cpu"] += 1
        content["hosts"]["operators"] = [{"name": OPERATOR, "keys": [f"{public} test"]}]
        content["hosts"]["postgresql"] = {"settings": {"work_mem": "5MB"}}

    server = site_host("services-1")
    file = edit(context, directory / "more", more)
    before = Changed(
        file,
        strata("plan", str(file)).stdout,
        key_file,
        served_certificate(context.cloud_outputs.instances["services-1"].address, 5000).serial_number,
        context.secrets.get(SECRET),
        started(server),
        node_names(kubectl),
        server_ids(cloud),
    )
    try:
        for command in (("secrets", "rotate", SECRET), ("certificates", "renew", CERTIFICATE)):
            done = strata(command[0], command[1], str(file), command[2])
            assert done.returncode == 0, done.stderr
        namespace = PORTAL.namespace_of(context.site)
        helm(context, "uninstall", PORTAL.name, "--namespace", namespace, "--ignore-not-found", "--wait")
        for point in KILLED_AT:
            kill_at(SiteContext.load(file), point)
        up(file)
        yield before
    finally:
        kubectl("delete", "deployment", WORKLOAD, "--ignore-not-found", "--wait=false", check=False)
        if not before.back:
            up(context.site_file)


def test_the_plan_showed_each_change(changed: Changed) -> None:
    assert f"cloud.instances.{NODE}" in changed.plan
    assert f"create instance {NODE}" in changed.plan
    for key in (
        "cloud.project.quota.cores",
        "platform.tenants.research.quota.cpu",
        "hosts.postgresql",
        "hosts.operators",
    ):
        assert key in changed.plan


def test_runs_that_were_killed_in_each_layer_leave_nothing_over(changed: Changed, cloud: Connection) -> None:
    """One new instance, the others as they were; no process of theirs, no drift, and nothing left to do."""
    after = server_ids(cloud)
    assert after.keys() == changed.servers.keys() | {NODE}
    assert {name: after[name] for name in changed.servers} == changed.servers
    context = SiteContext.load(changed.file)
    assert not workers(context)
    assert nothing_left_over(context)
    _, status, error = strata_json(context, "status")
    assert status, error
    assert not status["drift"]["drift"], status["drift"]
    assert {row["found"] for row in status["objects"] if row["object"] == f"release {PORTAL.name}"} == {"deployed"}
    assert up(changed.file)["changed"] == 0


def test_a_new_gpu_node_is_marked_and_offers_its_card(changed: Changed, context: SiteContext, kubectl: Kubectl) -> None:
    assert context.site.cluster is not None
    assert node_names(kubectl) == changed.nodes | {NODE}

    def offers() -> bool:
        node = json.loads(kubectl("get", "node", NODE, "-o", "json"))
        ready = {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"]
        return bool(ready == "True" and node["status"]["allocatable"].get("nvidia.com/gpu") == "1")

    eventually(offers, 180, f"{NODE} is Ready and offers one card")
    node = json.loads(kubectl("get", "node", NODE, "-o", "json"))
    assert set(context.site.cluster.gpu_nodes.labels.items()) <= set(node["metadata"]["labels"].items())
    taints = {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints", [])}
    assert set(context.site.cluster.gpu_nodes.taints) <= taints


def test_quotas_grew(changed: Changed, context: SiteContext, cloud: Connection, kubectl: Kubectl) -> None:
    assert changed
    assert context.site.cloud is not None
    project = cloud.get_project(context.site.cloud.project.name)
    assert project is not None
    quota = context.site.cloud.project.quota
    assert quota is not None
    assert cloud.get_compute_quotas(project.id).cores == quota.cores + 4
    tenant = context.site.platform.tenants[0]
    quota = json.loads(kubectl("get", "resourcequota", tenant.name, "-n", tenant.name, "-o", "json"))
    assert str(tenant.quota.cpu + 1) in {str(v) for k, v in quota["spec"]["hard"].items() if "cpu" in k}


def may_log_in(changed: Changed, context: SiteContext, host: str) -> bool:
    """Whether the operator's key opens a host."""
    assert context.cloud_outputs is not None
    address = context.cloud_outputs.instances[host].address
    options = [
        "-o",
        "BatchMode=yes",
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        f"UserKnownHostsFile={context.paths.known_hosts}",
    ]
    done = subprocess.run(
        ["ssh", "-i", str(changed.key_file), *options, f"{OPERATOR}@{address}", "id", "--user", "--name"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode == 0 and done.stdout.strip() == OPERATOR


def test_an_operators_key_opens_every_host(changed: Changed, context: SiteContext) -> None:
    for host in ("services-1", NODE):
        assert may_log_in(changed, SiteContext.load(context.site_file), host)


def test_postgresql_took_a_setting_over_without_a_restart(changed: Changed, site_host: Callable[[str], Host]) -> None:
    server = site_host("services-1")
    assert setting(server, "work_mem") == "5MB"
    assert started(server) == changed.started


def test_postgresql_is_restarted_for_a_setting_that_needs_it(
    changed: Changed,
    tmp_path: Path,
    site_host: Callable[[str], Host],
    kubectl: Kubectl,
    context: SiteContext,
    http: requests.Session,
) -> None:
    """Beside another that does not; who reads and writes its databases goes on."""
    server = site_host("services-1")
    before, connections = started(server), int(setting(server, "max_connections")) + 7
    settings = {"work_mem": "6MB", "max_connections": connections}

    def more(content: dict[str, Any]) -> None:
        content["hosts"]["postgresql"]["settings"] = settings

    up(edit(SiteContext.load(changed.file), tmp_path / "settings", more), "--layer", "hosts")
    assert {name: setting(server, name) for name in settings} == {
        "work_mem": "6MB",
        "max_connections": str(connections),
    }
    assert started(server) != before

    def kine_writes() -> bool:
        kubectl("delete", "configmap", WORKLOAD, "--ignore-not-found")  # of a try whose answer was lost
        return WORKLOAD in kubectl("create", "configmap", WORKLOAD, "-o", "name")

    try:
        eventually(kine_writes, 180, "the API server writes to kine's database")
    finally:
        kubectl("delete", "configmap", WORKLOAD, "--ignore-not-found")
    eventually(lambda: ready(context, http), 180, "ml-hub reads its database")


def test_a_rotated_password_is_the_only_one(changed: Changed, context: SiteContext, http: requests.Session) -> None:
    new = context.secrets.get(SECRET)
    assert new != changed.password

    def connect(password: str) -> None:
        with (
            reached(context, "postgresql", POSTGRESQL, "kube_node") as (host, port),
            psycopg.connect(
                host=host, port=port, dbname="ml_hub", user="ml_hub", password=password, sslmode="require"
            ) as connection,
        ):
            connection.execute("select 1")

    connect(new)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(changed.password)

    eventually(lambda: ready(context, http), 180, "ml-hub reads its database with the new password")


def test_a_renewed_certificate_is_served(changed: Changed, context: SiteContext) -> None:
    assert context.cloud_outputs is not None
    shown = served_certificate(context.cloud_outputs.instances["services-1"].address, 5000)
    assert shown.serial_number != changed.serial


def test_data_that_no_one_named_stays(context: SiteContext, tmp_path: Path) -> None:
    def less(content: dict[str, Any]) -> None:
        content["hosts"]["nfs"]["exports"][0]["name"] = "another"
        content["platform"]["tenants"] = []
        for service in content["platform"]["services"].values():  # none may name a tenant or an export that is gone
            service.pop("datasets", None)
            for profile in service.get("profiles", []):
                profile.pop("tenants", None)

    file = edit(context, tmp_path / "less", less)
    before = (context.paths.outputs / "protected.json").read_text()
    done = strata("up", str(file), "--no-verify", "--yes")
    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    for key in ("export/data", "tenant/research"):
        assert f"--remove {key}" in said
    assert (context.paths.outputs / "protected.json").read_text() == before
    assert "--remove export/data" in " ".join(strata("plan", str(file), "--offline").stdout.split())


def test_a_node_that_leaves_is_drained_and_leaves_nothing(
    changed: Changed,
    context: SiteContext,
    cloud: Connection,
    kubectl: Kubectl,
    images: ImageOutputs,
    site_host: Callable[[str], Host],
) -> None:
    """Last in this file: it brings the site back to its own file."""
    start(kubectl, images, NODE)
    eventually(lambda: where(kubectl) == NODE, 180, f"the workload runs on {NODE}")
    plan = strata("plan", str(context.site_file), "--offline").stdout
    assert f"node {NODE}: drained" in plan
    assert f"instance {NODE}: deleted" in plan

    up(context.site_file)
    changed.back = True
    assert node_names(kubectl) == changed.nodes
    eventually(lambda: where(kubectl) in changed.nodes, 180, "the workload runs elsewhere")

    def removals() -> list[dict[str, Any]]:
        events = json.loads(kubectl("get", "events", "-A", "-o", "json"))["items"]
        return [e for e in events if e["reason"] == "RemovingNode" and e["involvedObject"]["name"] == NODE]

    removed = settled(removals)
    moved = json.loads(kubectl("get", "pods", "-l", f"app={WORKLOAD}", "-o", "json"))["items"]
    # both in RFC 3339, so that texts compare as times do: the workload had left before the node went
    assert removed
    assert min(pod["metadata"]["creationTimestamp"] for pod in moved) <= max(e["lastTimestamp"] for e in removed)
    assert NODE not in {server.name for server in cloud.compute.servers(all_projects=True)}
    fresh = SiteContext.load(context.site_file)
    assert fresh.cloud_outputs is not None
    assert NODE not in fresh.cloud_outputs.instances
    assert not may_log_in(changed, fresh, "services-1")
    for host in (site_host("services-1"), site_host("worker-1")):
        assert host.run(f"id {OPERATOR}").rc != 0
        assert not host.file(f"/home/{OPERATOR}/.ssh/authorized_keys").exists
    tokens = kubectl("get", "secrets", "-n", "kube-system", "--field-selector", "type=bootstrap.kubernetes.io/token")
    assert "bootstrap-token" not in tokens
