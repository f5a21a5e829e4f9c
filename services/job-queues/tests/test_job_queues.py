"""Shares of tenants, and queues that a real API server takes with Kueue's own definitions."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service
from strata.platform.releases import PlatformState, releases
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata_bench.api_server import ApiServer
from strata_bench.helm import Helm
from strata_services.job_queues.service import SERVICE
from strata_services.job_queues.shares import capacity, cards, divide

RECORDED = REPOSITORY / "tests" / "contract" / "charts" / "recorded" / "kueue.json"
NAUTILUS = REPOSITORY / "inventories" / "nautilus" / "site.yaml"
CNAF = REPOSITORY / "inventories" / "cnaf" / "site.yaml"
Values = dict[str, Any]
Object = dict[str, Any]


def test_quotas_that_fit_are_guaranteed() -> None:
    shares = divide({"a": 6, "b": 4}, 10)
    assert {name: (share.guaranteed, share.lent) for name, share in shares.of_tenants.items()} == {
        "a": (6, 0),
        "b": (4, 0),
    }
    assert shares.rest == 0


@pytest.mark.parametrize(("quotas", "size"), [({"a": 8, "b": 4, "c": 1}, 10), ({"a": 3, "b": 3}, 1), ({"a": 5}, 0)])
def test_larger_quotas_share_the_cluster_in_proportion(quotas: dict[str, int], size: int) -> None:
    shares = divide(quotas, size)
    assert sum(share.guaranteed for share in shares.of_tenants.values()) + shares.rest == size
    for name, quota in quotas.items():
        share = shares.of_tenants[name]
        assert share.guaranteed + share.lent == quota
        assert abs(share.guaranteed - size * quota / sum(quotas.values())) < 1


def test_an_unknown_capacity_limits_nothing() -> None:
    assert divide({"a": 10**6}, None).of_tenants["a"].guaranteed == 10**6


def test_capacity_is_that_of_the_nodes() -> None:
    site = load_site(CNAF)
    assert site.cloud is not None
    nodes = [instance.flavor for instance in site.cloud.instances if "kube_node" in instance.roles]
    flavors = {flavor.name: flavor for flavor in site.cloud.flavors}
    assert capacity(site)["cpu"] == 1000 * sum(flavors[name].vcpus for name in nodes)
    assert sum(cards(site).values()) == sum(sum(flavors[name].accelerators.values()) for name in nodes)


def quotas(groups: list[Values]) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Guaranteed and lent, by flavor and resource."""
    return {
        (flavor["name"], resource["name"]): (resource["nominalQuota"], resource.get("borrowingLimit"))
        for group in groups
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def test_cards_are_counted_by_kind(lab_with: Callable[..., Path], values_of: Callable[..., Values]) -> None:
    values = values_of(SERVICE, lab_with(SERVICE))
    by_queue = {queue["name"]: quotas(queue["resourceGroups"]) for queue in values["queues"]}
    assert by_queue["research"]["v100", "nvidia.com/gpu"] == ("1", "0")
    assert by_queue["teaching"]["v100", "nvidia.com/gpu"] == ("0", "0")
    (flavor,) = (flavor for flavor in values["flavors"] if flavor["name"] == "v100")
    assert flavor["nodeLabels"] == {"strata.dev/accelerator.v100": "true"}
    assert [toleration["key"] for toleration in flavor["tolerations"]] == ["nvidia.com/gpu"]


def test_the_controller_queues_all_jobs_of_tenants_and_no_others(state: Callable[[Path], PlatformState]) -> None:
    site_state = state(NAUTILUS)
    table = {release.name: release for release in releases(site_state.site)}
    values = table["kueue"].values(site_state)
    configuration = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    assert configuration["manageJobsWithoutQueueName"] is True
    (names,) = configuration["managedJobsNamespaceSelector"]["matchExpressions"]
    assert names["values"] == ["atmospheric-science", "vision"]
    assert "@sha256:" in values["controllerManager"]["manager"]["image"]["tag"]
    assert table["job-queues"].after == ("kueue",)
    assert table["job-queue-tenant-vision"].after == ("tenant-vision", "kueue")


@pytest.fixture(scope="module")
def kueue(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ApiServer:
    """An API server with Kueue's custom resources."""
    file = tmp_path_factory.mktemp("kueue") / "definitions.yaml"
    file.write_text(yaml.safe_dump_all(json.loads(RECORDED.read_text())["customResources"]))
    api_server.kubectl("apply", "--server-side", "--filename", str(file))
    api_server.kubectl("wait", "--for=condition=Established", "--timeout=120s", "--filename", str(file))
    return api_server


@pytest.fixture
def queues(state: Callable[[Path], PlatformState]) -> list[Object]:
    """Objects of the service's releases at nautilus."""
    site_state = state(NAUTILUS)
    table = [release for release in releases(site_state.site) if release.name.startswith("job-queue")]
    assert len(table) == 3
    helm = Helm(Path(sys.executable).with_name("helm"))
    return [
        item
        for release in table
        for item in helm.template(release.chart, release.values(site_state), release.name).values()
    ]


def test_the_api_server_takes_the_queues(kueue: ApiServer, queues: list[Object], tmp_path: Path) -> None:
    """And then: a queue of a namespace stays with its tenant, and members see queues and change none."""
    for namespace in ("atmospheric-science", "vision"):
        kueue.namespace(namespace)
    kinds = {item["kind"] for item in queues}
    assert {"ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "NetworkPolicy", "Role"} <= kinds
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump_all(queues))
    kueue.kubectl("apply", "--validate=strict", "--filename", str(file))
    (moved,) = (o for o in queues if o["kind"] == "LocalQueue" and o["metadata"]["namespace"] == "vision")
    moved = copy.deepcopy(moved)
    moved["spec"]["clusterQueue"] = "atmospheric-science"
    done = kueue.dry_run("vision", yaml.safe_dump(moved))
    assert done.returncode != 0
    assert "immutable" in done.stderr
    role = {"kind": "Role", "name": "job-queue-viewer", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "member", "namespace": "vision"},
        "roleRef": role,
        "subjects": [{"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    (tmp_path / "binding.json").write_text(json.dumps(binding))
    kueue.kubectl("apply", "--filename", str(tmp_path / "binding.json"))

    def may(verb: str, resource: str, namespace: str) -> bool:
        question = ("auth", "can-i", verb, f"{resource}.kueue.x-k8s.io", "--namespace", namespace, "--as", "ada")
        return kueue.kubectl(*question, check=False).strip().endswith("yes")

    assert may("list", "localqueues", "vision")
    for verb, resource, namespace in (
        ("create", "localqueues", "vision"),
        ("patch", "localqueues", "vision"),
        ("patch", "clusterqueues", "vision"),
        ("delete", "workloads", "vision"),
        ("list", "localqueues", "atmospheric-science"),
    ):
        assert not may(verb, resource, namespace), (verb, resource, namespace)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("resourceGroups", 0, "flavors", 0, "resources", 0, "nominalQuota"), "many"),
        (("resourceGroups", 0, "coveredResources"), ["cpu"]),
        (("preemption", "reclaimWithinCohort"), "Sometimes"),
        (("cohort",), "tenants"),
    ],
    ids=["quantity", "resource of no group", "policy", "name of another version"],
)
def test_the_definitions_refuse_errors(
    kueue: ApiServer, queues: list[Object], path: tuple[str | int, ...], value: object
) -> None:
    wrong = copy.deepcopy(next(item for item in queues if item["kind"] == "ClusterQueue"))
    place: Any = wrong["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert kueue.dry_run("default", yaml.safe_dump(wrong)).returncode != 0


def test_a_site_without_tenants_is_refused(lab: Path) -> None:
    site = load_site(lab)
    without = site.model_copy(update={"platform": site.platform.model_copy(update={"tenants": ()})})
    service: Service[Any] = SERVICE
    (finding,) = service.check(service.section(), without, lab.parent)
    assert "needs a tenant" in finding.why
