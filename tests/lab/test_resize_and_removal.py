"""Flavors change under instances that run, and what holds data or runs instances leaves only when it is named or empty.

The site file is edited once: a flavor grows, a worker comes on a new hypervisor, a database, an export and a tenant are
added. Then it is edited back, and each of these must go without a trace; what nobody touched must not have noticed.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata.site.context import SiteContext
from strata.verify.pods import Kubectl
from strata_bench.waiting import eventually

from .commands import psql, strata, up
from .editing import edit
from .healing import in_controller
from .lab_site import require_lab

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

RESIZED = "gpu-worker-1"
WORKER = "worker-change"
OCCUPIED, EMPTY = "compute-change-1", "compute-change-2"
DATABASE, EXPORT, TENANT = "change_test", "change-test", "change-test"
DIRECTORY = "/srv/nfs/change-test"
NAMED = (f"database/{DATABASE}", f"export/{EXPORT}", f"tenant/{TENANT}")
MARKER = "/root/change-test"
REMOVAL = tuple(option for key in NAMED for option in ("--remove", key))
"""Options that allow the loss."""


def words(text: str) -> str:
    """Without the line breaks that a terminal's width makes."""
    return " ".join(text.split())


def more(content: dict[str, Any]) -> None:
    """The site file with one flavor larger, and one thing more of each kind."""
    cloud = content["cloud"]
    worker = next(i for i in cloud["instances"] if i["roles"] == ["kube_node"])
    grow(content)
    # nova's scheduler prefers the hypervisor with the most free memory
    cloud["hypervisors"] += [
        {"name": OCCUPIED, "vcpus": 64, "memory": "512 GiB", "disk": "2000 GiB"},
        {"name": EMPTY, "vcpus": 2, "memory": "1 GiB", "disk": "20 GiB"},
    ]
    cloud["instances"].append({**copy.deepcopy(worker), "name": WORKER})  # a site file has no aliases
    content["hosts"]["postgresql"] = {"databases": [DATABASE]}
    content["hosts"]["nfs"]["exports"].append({"name": EXPORT, "path": DIRECTORY})
    content["platform"]["tenants"].append({"name": TENANT, "group_id": 29999, "quota": {"cpu": 1, "memory": "1 GiB"}})


def more_and_services(content: dict[str, Any]) -> None:
    """The same, and another flavor for the host with data."""
    more(content)
    larger = {"name": "services.large", "vcpus": 2, "memory": "3 GiB", "disk": "20 GiB"}
    content["cloud"]["flavors"].append(larger)
    next(i for i in content["cloud"]["instances"] if i["name"] == "services-1")["flavor"] = larger["name"]


def grow(content: dict[str, Any]) -> None:
    """The flavor of the GPU node with one GiB of memory more."""
    name = next(i for i in content["cloud"]["instances"] if i["name"] == RESIZED)["flavor"]
    flavor = next(f for f in content["cloud"]["flavors"] if f["name"] == name)
    size, unit = flavor["memory"].split()
    flavor["memory"] = f"{int(size) + 1} {unit}"


@dataclass(frozen=True)
class Known:
    """What a machine is known by: its server's id, its address, and when its first process was started."""

    id: str
    address: str
    booted: str


@dataclass
class Place:
    """The site before, and after the edit.

    Args:
        file: the edited site file.
        before: each host before.
        begun: when, in RFC 3339, as the cluster's events have it.
        plan: what `strata plan` reported where the host with data was to have another flavor too.
        refused: what `up --yes` reported to that.
        restored: not empty once the site is as its own file states.
    """

    file: Path
    before: dict[str, Known]
    begun: str
    plan: str
    refused: subprocess.CompletedProcess[str] = field(init=False)
    restored: list[bool] = field(default_factory=list)


def hosts(context: SiteContext, site_host: Callable[[str], Host], cloud: Connection) -> dict[str, Known]:
    """Each instance of the site's own file, as nova and its own kernel see it."""
    assert context.site.cloud is not None
    outputs = SiteContext.load(context.site_file).cloud_outputs
    assert outputs is not None
    servers = {s.id: s for s in cloud.compute.servers(all_projects=True)}
    by_name = {}
    for instance in context.site.cloud.instances:
        known = outputs.instances[instance.name]
        assert servers[known.id].status == "ACTIVE"
        booted = site_host(instance.name).check_output("cut -d' ' -f22 /proc/1/stat").strip()
        by_name[instance.name] = Known(known.id, known.address, booted)
    return by_name


def memory_mib(server: Host) -> int:
    """Memory that a machine has."""
    return int(server.check_output("awk '/^MemTotal/ {print $2}' /proc/meminfo")) // 1024


@pytest.fixture(scope="module")
def place(
    context: SiteContext,
    tmp_path_factory: pytest.TempPathFactory,
    site_host: Callable[[str], Host],
    cloud: Connection,
) -> Iterator[Place]:
    """The site as the edited file states; afterwards, whatever happened, as its own file states."""
    site = context.site
    require_lab(context)
    assert site.cloud is not None
    if RESIZED not in {i.name for i in site.cloud.instances}:
        pytest.skip(f"site {site.name} has no instance {RESIZED}")
    directory = tmp_path_factory.mktemp("resize")
    file = edit(context, directory / "more", more)
    too_much = edit(context, directory / "too-much", more_and_services)
    before = hosts(context, site_host, cloud)
    site_host(RESIZED).check_output(f"touch {MARKER}")
    begun = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    prepared = Place(file, before, begun, strata("plan", str(too_much)).stdout)
    try:
        prepared.refused = strata("up", str(too_much), "--no-verify", "--yes")
        assert hosts(context, site_host, cloud) == before
        up(file, "--replace", RESIZED)
        yield prepared
    finally:
        if not prepared.restored:
            restore(context)
        site_host(RESIZED).run(f"rm -f {MARKER}")
        site_host("services-1").run(f"rm -rf {DIRECTORY}")


def restore(context: SiteContext) -> None:
    """The site as its own file states; what must be named is named if it is there."""
    ledger = context.paths.outputs / "protected.json"
    kept = {f"{item['kind']}/{item['name']}" for item in json.loads(ledger.read_text())["kept"]}
    options = [option for key in NAMED if key in kept for option in ("--remove", key)]
    up(context.site_file, *options, "--replace", RESIZED)


def test_the_plan_shows_what_would_be_disrupted(place: Place) -> None:
    said = words(place.plan)
    assert f"! {RESIZED} is resized (flavorId): stopped and started with the new size; its disk stays" in said
    assert "! services-1 is resized (flavorId)" in said
    for name in (RESIZED, "services-1"):
        assert f"--replace {name}" in said
    assert f"create instance {WORKER}" in said
    assert said.count(" is resized") == 2


def test_a_host_with_data_must_be_named(place: Place) -> None:
    """`--yes` covers the GPU node, and not the host of PostgreSQL and NFS; nothing was touched then."""
    said = words(place.refused.stderr)
    assert place.refused.returncode == 4, said
    assert "services-1 is resized (flavorId)" in said
    assert "it holds the data of nfs_server, postgresql" in said
    assert "--replace services-1" in said
    assert f"--replace {RESIZED}" not in said


def test_the_instance_is_resized_and_no_other_is_touched(
    place: Place, context: SiteContext, site_host: Callable[[str], Host], cloud: Connection, kubectl: Kubectl
) -> None:
    now = hosts(context, site_host, cloud)
    resized, before = now.pop(RESIZED), dict(place.before)
    old = before.pop(RESIZED)
    assert now == before
    assert (resized.id, resized.address) == (old.id, old.address)
    assert resized.booted != old.booted
    assert context.site.cloud is not None
    name = next(i.flavor for i in context.site.cloud.instances if i.name == RESIZED)
    larger = next(f.memory.mebibytes for f in context.site.cloud.flavors if f.name == name) + 1024
    server = cloud.compute.get_server(resized.id)
    assert (server.flavor.original_name, server.flavor.ram) == (name, larger)
    assert memory_mib(site_host(RESIZED)) == larger
    assert site_host(RESIZED).file(MARKER).exists

    # drained before it was stopped, as its kubelet still saw when it was started, and it takes pods again
    def reported() -> bool:
        cordoned, uncordoned = (last_event(kubectl, reason) for reason in ("NodeNotSchedulable", "NodeSchedulable"))
        return place.begun <= cordoned <= uncordoned  # texts that compare as times do

    eventually(reported, 60, f"{RESIZED} reports that it took no pods, then that it does")
    eventually(lambda: offers_its_card(kubectl), 120, f"{RESIZED} is ready and offers one card")


def last_event(kubectl: Kubectl, reason: str) -> str:
    """When the node last reported this of itself; "" where it never did."""
    events = json.loads(kubectl("get", "events", "-n", "default", "-o", "json"))["items"]
    return max(
        (e["lastTimestamp"] or "" for e in events if e["involvedObject"]["name"] == RESIZED and e["reason"] == reason),
        default="",
    )


def offers_its_card(kubectl: Kubectl) -> bool:
    """Whether the node takes pods and has its card."""
    node = json.loads(kubectl("get", "node", RESIZED, "-o", "json"))
    ready = next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
    offered = node["status"]["allocatable"].get("nvidia.com/gpu")
    return ready == "True" and offered == "1" and not node["spec"].get("unschedulable")


def test_a_worker_and_all_that_holds_data_came(
    place: Place, context: SiteContext, site_host: Callable[[str], Host], cloud: Connection, kubectl: Kubectl
) -> None:
    servers = {s.name: s.hypervisor_hostname for s in cloud.compute.servers(all_projects=True)}
    assert servers[WORKER] == OCCUPIED
    assert WORKER in kubectl("get", "nodes", "-o", "name")
    psql(site_host("services-1"), DATABASE, "create table kept (x int); insert into kept values (1)")
    site_host("services-1").check_output(f"echo data > {DIRECTORY}/file")
    assert kubectl("get", "resourcequota", "-n", TENANT, "-o", "name").strip()


def test_a_second_up_changes_nothing_and_nothing_has_drifted(place: Place) -> None:
    assert up(place.file)["changed"] == 0
    seen = strata("status", str(place.file), "--json")
    assert seen.returncode == 0, seen.stdout


def test_a_hypervisor_with_instances_does_not_leave(
    place: Place, context: SiteContext, cloud: Connection, tmp_path: Path
) -> None:
    """Refused with the reason, and the empty one beside it goes."""

    def fewer(content: dict[str, Any]) -> None:
        more(content)
        content["cloud"]["hypervisors"] = content["cloud"]["hypervisors"][:-2]

    file = edit(context, tmp_path / "fewer", fewer)
    done = strata("up", str(file), "--no-verify", "--layer", "cloud")
    said = words(done.stderr)
    assert done.returncode == 2, said
    assert f"instances still run on them: {OCCUPIED}: {WORKER}" in said
    assert f"openstack server migrate --wait {WORKER}" in said
    left = {s.host: s.state for s in cloud.compute.services(binary="nova-compute")}
    assert left.get(OCCUPIED) == "up"
    assert EMPTY not in left


def test_what_is_named_goes_without_a_trace(
    place: Place, context: SiteContext, site_host: Callable[[str], Host], cloud: Connection, kubectl: Kubectl
) -> None:
    """Last in this file: it brings the site back to its own file."""
    unnamed = strata("up", str(context.site_file), "--no-verify", "--yes")
    assert unnamed.returncode == 2, unnamed.stderr
    plan = words(strata("plan", str(context.site_file), "--offline").stdout)
    for key in NAMED:
        assert f"--remove {key}" in words(unnamed.stderr)
        assert f"{key} is no longer in the site file" in plan
    assert f"node {WORKER}: drained" in plan
    assert f"hypervisor {OCCUPIED}: removed" in plan
    server = site_host("services-1")
    assert psql(server, DATABASE, "select x from kept") == "1"  # still there

    up(context.site_file, *REMOVAL, "--replace", RESIZED)
    place.restored.append(True)
    assert DATABASE not in psql(server, "postgres", "select datname from pg_database").split()
    assert DATABASE not in psql(server, "postgres", "select rolname from pg_roles").split()
    assert DIRECTORY not in server.file("/etc/ganesha/ganesha.conf").content_string
    assert server.file(f"{DIRECTORY}/file").content_string == "data\n"  # as the plan states, files stay on the server
    assert TENANT not in kubectl("get", "namespaces", "-o", "name")
    assert f"tenant-{TENANT}" not in kubectl("get", "secrets", "-A", "-l", "owner=helm", "-o", "name")
    assert WORKER not in kubectl("get", "nodes", "-o", "name")
    assert WORKER not in {s.name for s in cloud.compute.servers(all_projects=True)}
    kept = json.loads((context.paths.outputs / "protected.json").read_text())
    assert kept["removing"] == []
    assert not {f"{item['kind']}/{item['name']}" for item in kept["kept"]} & set(NAMED)


def test_hypervisors_left_nothing(place: Place, context: SiteContext, cloud: Connection) -> None:
    if not place.restored:
        pytest.skip("the site was not brought back to its own file")
    assert context.site.cloud is not None
    own = {h.name for h in context.site.cloud.hypervisors}
    assert {s.host for s in cloud.compute.services(binary="nova-compute")} == own
    providers = {p["name"] for p in cloud.placement.get("/resource_providers").json()["resource_providers"]}
    assert providers >= own
    assert not providers & {OCCUPIED, EMPTY}
    members = {host for aggregate in cloud.compute.aggregates() for host in aggregate.hosts or ()}
    assert members == own
    units = in_controller(context, "systemctl", "list-units", "--all", "--plain", "--no-legend", "nova-compute@*")
    assert not [name for name in (OCCUPIED, EMPTY) if name in units]
    seen = strata("status", str(context.site_file), "--json")
    assert seen.returncode == 0, seen.stdout
