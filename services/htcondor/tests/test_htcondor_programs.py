"""The provisioner and the issuer of tokens, as they run in the image, without HTCondor."""

# ruff: noqa: PLC0415  # a fixture puts the image's package on the path

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from strata_bench.kubernetes_api import KubernetesApi
from strata_services.htcondor.needs import secret_data

TEMPLATE = {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": [{"name": "condor"}]}}}}
IMAGES = {"": "registry/condor@sha256:1", "torch": "registry/torch@sha256:2"}
CARD = {
    "resource": "nvidia.com/gpu",
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"operator": "Exists"}],
    "countedAs": "",
}


pytestmark = pytest.mark.usefixtures("own_programs")


@pytest.fixture
def plan() -> Any:
    """strata_condor.plan."""
    import strata_condor.plan as found  # type: ignore[import-not-found]  # in the image, or put on the path above

    return found


class Ad(dict[str, Any]):
    """A ClassAd of literals."""

    def eval(self, attr: str) -> Any:
        return self[attr]


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    """Kubernetes' API, empty."""
    with KubernetesApi().running() as running:
        yield running


@pytest.fixture
def jobs(api: KubernetesApi) -> dict[str, Any]:
    """Execution points by name."""
    return api.of("execute", "jobs")


@pytest.fixture
def cluster(api: KubernetesApi) -> Any:
    """The provisioner's client of it."""
    from strata_condor.kubernetes import Kubernetes  # type: ignore[import-not-found]  # as above

    return Kubernetes("execute", TEMPLATE, CARD, 100, IMAGES, api.url, account=None)


def pool(plan: Any, maximum: int = 10, **tenants: Any) -> Any:
    return plan.Pool(maximum, tenants or {"a": plan.Limits(8, 8192, 1)})


def test_idle_jobs_get_what_is_missing(plan: Any) -> None:
    shape = plan.Shape("a", 1, 128)
    points = [plan.Point("one", shape, running=True), plan.Point("two", shape, running=True, busy=True)]
    changes = pool(plan).plan({shape: 3}, points, {})
    assert changes.create == (shape, shape), "a point without a job takes one of the three"
    assert changes.delete == ()


def test_points_that_no_job_waits_for_are_deleted_before_they_have_a_node_only(plan: Any) -> None:
    shape, other = plan.Shape("a", 1, 128), plan.Shape("a", 2, 128)
    points = [
        plan.Point("pending", shape),
        plan.Point("idle", other, running=True),
        plan.Point("busy", shape, True, True),
    ]
    changes = pool(plan).plan({}, points, {})
    assert changes.delete == ("pending",)
    assert pool(plan).plan({shape: 1}, points, {}) == plan.Plan()


def test_limits_hold(plan: Any) -> None:
    small, wide = plan.Shape("a", 1, 128), plan.Shape("a", 4, 128)
    assert len(pool(plan, maximum=2).plan({small: 9}, [], {}).create) == 2
    assert len(pool(plan, a=plan.Limits(3, 8192)).plan({small: 9}, [], {}).create) == 3
    assert len(pool(plan, a=plan.Limits(9, 256)).plan({small: 9}, [], {}).create) == 2
    changes = pool(plan, a=plan.Limits(3, 8192)).plan({wide: 1, small: 1, plan.Shape("b", 1, 128): 1}, [], {})
    assert changes.create == (small,)
    assert set(changes.refused) == {wide, plan.Shape("b", 1, 128)}
    card = plan.Shape("a", 1, 128, 1)
    assert pool(plan).plan({card: 2}, [], {}).create == (card,)
    # a point that still runs counts
    assert pool(plan).plan({card: 1}, [plan.Point("one", card, True, True)], {}).create == ()


def test_shares_follow_usage_and_factor(plan: Any) -> None:
    def created(usage: dict[str, float], factor: float = 1.0, points: Any = ()) -> Counter[str]:
        limits = {"a": plan.Limits(100, 99999), "b": plan.Limits(100, 99999, 0, factor)}
        idle = {plan.Shape("a", 1, 128): 50, plan.Shape("b", 1, 128): 50}
        return Counter(shape.tenant for shape in pool(plan, 12, **limits).plan(idle, points, usage).create)

    assert created({}) == {"a": 6, "b": 6}
    assert created({"a": 4.0, "b": 2.0}) == {"a": 4, "b": 8}
    assert created({}, factor=3.0) == {"a": 9, "b": 3}
    running = [plan.Point(str(index), plan.Shape("a", 1, 128), True, True) for index in range(6)]
    assert created({}, points=running) == {"b": 6}


def test_the_queue_is_read_by_shape() -> None:
    from strata_condor.plan import Shape
    from strata_condor.queue import snapshot, usage  # type: ignore[import-not-found]  # as above

    queue = snapshot(
        [
            Ad(
                AcctGroup="a",
                JobStatus=1,
                RequestCpus=2,
                RequestMemory=200,
                RequestGPUs=1,
                EnteredCurrentStatus=50,
                StrataImage="own",
            ),
            Ad(AcctGroup="a", JobStatus=1, RequestCpus=2, RequestMemory=256, RequestGPUs=1, EnteredCurrentStatus=70),
            Ad(AcctGroup="a", JobStatus=1, RequestMemory=object(), EnteredCurrentStatus=60),
            Ad(AcctGroup="b", JobStatus=2, RemoteHost="slot1@execute-b-1a2b3c4d-x7k2p"),
            Ad(AcctGroup="b", JobStatus=5, HoldReasonCode=1),
            Ad(AcctGroup="b", JobStatus=5, HoldReasonCode=16),
            Ad(AcctGroup="b", JobStatus=1, StrataImage="torch", EnteredCurrentStatus=80),
        ],
        "own",
    )
    assert queue.idle == {
        Shape("a", 2, 256, 1, "own"): 2,
        Shape("a", 1, 128, 0, "own"): 1,
        Shape("b", 1, 128, 0, "torch"): 1,
    }
    assert queue.busy == {"execute-b-1a2b3c4d"}
    assert queue.jobs == {("a", "idle"): 3, ("b", "idle"): 1, ("b", "running"): 1, ("b", "held"): 1}
    assert queue.idle_since == {"a": 50, "b": 80}
    priorities: list[dict[str, Any]] = [
        {"Name": "a", "IsAccountingGroup": True, "Priority": 500.0},
        {"Name": "a.ada@lab", "Priority": 2.0},
        {"Name": "a.carol@lab", "Priority": 0.5},
        {"Name": "ml_team.a_d-a@lab", "Priority": 1.0},
    ]
    assert usage(priorities) == {"a": 2.5, "ml-team": 1.0}


def test_a_point_has_what_its_job_requests(cluster: Any, plan: Any) -> None:
    job = cluster.manifest(plan.Shape("research", 2, 256, 1))
    pod = job["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "200m", "memory": "352Mi", "nvidia.com/gpu": "1"}
    assert container["resources"]["limits"]["cpu"] == "2"
    assert (pod["spec"]["nodeSelector"], pod["spec"]["tolerations"]) == ({"pool": "gpu"}, [{"operator": "Exists"}])
    assert pod["metadata"]["labels"]["strata.dev/tenant"] == "research"
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert environment["_CONDOR_MACHINE_RESOURCE_GPUs"] == "CUDA0"
    assert environment["_CONDOR_STRATA_TENANT"] == "research"
    without = cluster.manifest(plan.Shape("research", 1, 128))["spec"]["template"]["spec"]
    assert "nodeSelector" not in without
    assert "execute" not in json.dumps(TEMPLATE), "the template is copied"


def test_a_point_has_the_folder_of_its_tenant_only(cluster: Any, plan: Any) -> None:
    cluster.shared = {"research": {"claim": "tenants-research", "group": 20001}}
    cluster.template["spec"]["template"]["spec"]["initContainers"] = [{"name": "programs"}]
    spec = cluster.manifest(plan.Shape("research", 1, 128))["spec"]["template"]["spec"]
    assert spec["volumes"] == [{"name": "shared", "persistentVolumeClaim": {"claimName": "tenants-research"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "shared", "mountPath": "/shared/research"}]
    assert spec["initContainers"][0]["env"] == [{"name": "TENANT_GROUP", "value": "20001"}]
    assert "shared" not in json.dumps(cluster.manifest(plan.Shape("teaching", 1, 128)))


def test_a_point_runs_the_image_that_its_job_names(jobs: dict[str, Any], cluster: Any, plan: Any) -> None:
    shape = plan.Shape("a", 1, 128, 0, "torch")
    cluster.create(cluster.manifest(shape))
    (job,) = jobs.values()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGES["torch"]
    assert {"name": "_CONDOR_STRATA_IMAGE", "value": "torch"} in container["env"]
    (point,) = cluster.points()
    assert point.shape == shape
    # it is not for jobs of another image, and an image that is gone from the pool gets none
    limits = {"a": plan.Limits(8, 8192)}
    other = plan.Shape("a", 1, 128)
    assert plan.Pool(10, limits, tuple(IMAGES)).plan({other: 1}, [point], {}).create == (other,)
    changes = plan.Pool(10, limits).plan({shape: 1}, [], {})
    assert (changes.create, changes.refused) == ((), (shape,))


def test_the_provisioner_goes_on_where_another_was_killed(jobs: dict[str, Any], cluster: Any, plan: Any) -> None:
    from strata_condor.provisioner import Provisioner, Settings  # type: ignore[import-not-found]  # as above
    from strata_condor.queue import Snapshot

    shape = plan.Shape("a", 1, 128)
    queue = Snapshot(Counter({shape: 2}), jobs=Counter({("a", "idle"): 2}))

    def started() -> Any:
        settings = Settings(("research@lab",), "", 5, pool(plan), cluster)
        return Provisioner(settings, lambda: queue, dict)

    first = started()
    first.run_once()
    assert len(jobs) == 2
    second = started()
    second.run_once()
    assert len(jobs) == 2, "the execution points of the first count"
    assert 'htcondor_execution_points{tenant="a",state="pending"} 2' in second.metrics
    assert 'htcondor_jobs{tenant="a",status="idle"} 2' in second.metrics
    job = next(iter(jobs.values()))
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    second.run_once()
    assert len(jobs) == 3, "an evicted one is replaced while its job waits"
    queue.idle.clear()
    second.run_once()
    assert list(jobs.values()) == [job]


def test_metrics_have_zeros(plan: Any) -> None:
    from strata_condor.provisioner import exposition
    from strata_condor.queue import Snapshot

    queue = Snapshot(jobs=Counter({("a", "idle"): 3}), idle_since={"a": 1000})
    points = [plan.Point(name, plan.Shape("a", 1, 128, cards=2), running=True) for name in ("one", "two")]
    lines = exposition(queue, points, ["a", "b"], 1060.5)
    metrics = dict(line.rsplit(" ", 1) for line in lines.splitlines() if not line.startswith("#"))
    assert metrics['htcondor_jobs{tenant="a",status="idle"}'] == "3"
    assert metrics['htcondor_execution_points{tenant="a",state="idle"}'] == "2"
    assert metrics['htcondor_accelerators{tenant="a"}'] == "4"
    assert metrics['htcondor_oldest_idle_job_seconds{tenant="a"}'] == "60"
    others = {f'htcondor_jobs{{tenant="b",status="{status}"}}' for status in ("idle", "running", "held")}
    others |= {f'htcondor_execution_points{{tenant="b",state="{state}"}}' for state in ("pending", "idle", "busy")}
    others |= {'htcondor_accelerators{tenant="b"}', 'htcondor_oldest_idle_job_seconds{tenant="b"}'}
    assert {name: metrics[name] for name in others} == dict.fromkeys(others, "0")


def test_a_refusal_of_kubernetes_names_its_reason(api: KubernetesApi, cluster: Any, plan: Any) -> None:
    from strata_condor.kubernetes import Unavailable

    api.refuse = True
    with pytest.raises(Unavailable, match="403"):
        cluster.create(cluster.manifest(plan.Shape("a", 1, 128)))
    cluster.delete("gone")


def test_tokens_are_for_users_of_tenants_only(tmp_path: Path) -> None:
    from strata_condor.tokens import Issuer, server  # type: ignore[import-not-found]  # as above

    program = tmp_path / "condor_token_create"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    removed: list[str] = []

    def remove(owner: str) -> int:
        if owner == "research.down":
            raise OSError("condor_status: no collector")
        removed.append(owner)
        return 2

    jobs = ["research.ada.b", "ml_team.bob", "former.eve"]

    def submitters() -> list[str]:
        if not jobs:
            raise OSError("condor_status: no collector")
        return jobs

    issuer = Issuer("sesame", ["research", "ml-team"], "lab", 60, (str(program),), remove, submitters)
    http_server = server(issuer, 0)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http_server.server_port}"

    def request(body: Any, sent: str = "sesame") -> requests.Response:
        return requests.post(f"{url}/tokens", json=body, headers={"Authorization": f"Bearer {sent}"}, timeout=60)

    try:
        good = request({"tenant": "research", "user": "ada"})
        assert good.status_code == 201
        assert good.json()["token"] == "-identity research.ada@lab -lifetime 60 -authz READ -authz WRITE"
        assert request({"tenant": "research", "user": "ada"}, "other").status_code == 401
        for body in ({"tenant": "other", "user": "ada"}, {"tenant": "research", "user": "x@y"}, {}, ["ada"], 1):
            assert request(body).status_code == 400, body
        assert request({"tenant": "research", "user": "a" * 5000}).status_code == 413
        assert requests.get(f"{url}/healthz", timeout=60).status_code == 200
        assert requests.get(f"{url}/tokens", timeout=60).status_code == 404

        def leaves(owner: str, sent: str = "sesame") -> requests.Response:
            headers = {"Authorization": f"Bearer {sent}"}
            return requests.delete(f"{url}/jobs/{owner}", headers=headers, timeout=60)

        assert leaves("research.ada.b").json() == {"removed": 2}
        assert leaves("research.ada", "other").status_code == 401
        for owner in ("other.ada", "research", "research.", 'research.x")', "research.a,research.b"):
            assert leaves(owner).status_code == 400, owner
        assert (leaves("research.down").status_code, removed) == (503, ["research.ada.b"])

        def owners(sent: str = "sesame") -> requests.Response:
            return requests.get(f"{url}/jobs", headers={"Authorization": f"Bearer {sent}"}, timeout=60)

        assert owners().json() == {"owners": ["ml-team.bob", "research.ada.b"]}
        assert owners("other").status_code == 401
        jobs.clear()
        assert owners().status_code == 503
    finally:
        http_server.shutdown()
        http_server.server_close()


def test_the_provisioner_alone_writes_what_jobs_wait_for() -> None:
    from strata_condor import explanations
    from strata_condor.tokens import Issuer, server

    edited: list[Any] = []

    def edit(*given: Any) -> None:
        if given[0] == "down":
            raise OSError("no schedd")
        edited.append(given)

    secret = secret_data_secret()
    answers = explanations.Explanations(explanations.secret_of("sesame"), ["research", "down"], edit)
    others = {explanations.PATH: (explanations.LONGEST_BODY, answers.write)}
    http_server = server(Issuer("sesame", ["research"], "lab", 60), 0, others)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http_server.server_port}"
    try:
        explanations.client(url, secret)("research", ["1.0", "2.1"], "the quota")
        assert edited == [("research", ["1.0", "2.1"], "the quota")]
        for sent, tenant, status in (("sesame", "research", 401), (secret, "other", 400), (secret, "down", 503)):
            with pytest.raises(OSError, match=f" {status} "):
                explanations.client(url, sent)(tenant, ["1.0"], "text")
        # which issues nothing
        header = {"Authorization": f"Bearer {secret}"}
        assert requests.post(f"{url}/tokens", json={}, headers=header, timeout=60).status_code == 401
    finally:
        http_server.shutdown()
        http_server.server_close()


def secret_data_secret() -> str:
    """As the platform's Secret has it for the token secret `sesame`."""
    context = SimpleNamespace(secrets=SimpleNamespace(get=lambda *_: "sesame"), site=SimpleNamespace(domain="lab"))
    return secret_data(context)["provisioner-secret"]  # type: ignore[arg-type]  # all that it reads
