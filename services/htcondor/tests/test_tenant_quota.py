"""Execution points use the quota of their tenant's namespace, as Kubernetes counts it."""

# ruff: noqa: PLC0415  # a fixture puts the image's package on the path

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from strata_bench.kubernetes_api import KubernetesApi
from strata_services.htcondor.needs import QUOTA

TEMPLATE = {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": [{"name": "condor"}]}}}}
CARD = {"resource": "nvidia.com/gpu", "nodeSelector": {"pool": "gpu"}, "tolerations": [], "countedAs": ""}
HARD = {"requests.cpu": "2", "requests.memory": "1Gi", "limits.memory": "1Gi", "requests.nvidia.com/gpu": "1"}
RESERVATION: dict[str, Any] = json.loads(json.dumps(QUOTA.provide(None)))  # type: ignore[arg-type]  # it needs no context

pytestmark = pytest.mark.usefixtures("own_programs")


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    """Kubernetes' API with a tenant's quota of 2 CPUs, 1 GiB and a card; another tenant has none left."""
    with KubernetesApi({"a": {**HARD, "pods": "10"}, "b": {"pods": "0"}}).running() as running:
        yield running


class Passes:
    """A provisioner, and the queue that it reads."""

    def __init__(self, api: KubernetesApi, card: dict[str, Any] | None = None) -> None:
        from strata_condor.kubernetes import Kubernetes  # type: ignore[import-not-found]  # in the image, on the path above
        from strata_condor.plan import Limits, Pool  # type: ignore[import-not-found]  # as above
        from strata_condor.provisioner import Provisioner, Settings  # type: ignore[import-not-found]  # as above
        from strata_condor.queue import Snapshot  # type: ignore[import-not-found]  # as above
        from strata_condor.reservations import Reservations  # type: ignore[import-not-found]  # as above

        cluster = Kubernetes("execute", TEMPLATE, card or CARD, 1000, {"": "registry/condor"}, api.url, account=None)
        pool = Pool(10, {name: Limits(100, 99999, 9) for name in ("a", "b")})
        settings = Settings((), "", 5, pool, cluster, Reservations(cluster, RESERVATION))
        self.queue = Snapshot()
        self.api, self.points, self.reservations = api, api.of("execute", "jobs"), api.of("a", "pods")
        self._provisioner = Provisioner(settings, lambda: self.queue, dict, self.explain)

    def explain(self, tenant: str, jobs: Sequence[str], text: str) -> None:
        """As HTCondor stores it."""
        for job in jobs:
            self.queue.said[tenant, job] = self.queue.said[tenant, job][0], text

    def run(self, **shapes: Any) -> None:
        """One pass, with idle jobs: tenant to CPUs, MiB and cards, and how many."""
        from strata_condor.plan import Shape

        idle = {Shape(tenant, *shape): count for tenant, (shape, count) in shapes.items()}
        self.queue.idle = Counter(idle)
        self._provisioner.run_once()


def test_jobs_get_as_much_as_the_namespace_has_left(api: KubernetesApi) -> None:
    """A pod of the tenant counts, and another tenant's quota is none of theirs."""
    own = {"name": "own", "resources": {"requests": {"cpu": "500m"}}}
    api.create("a", "pods", {"metadata": {"name": "train"}, "spec": {"containers": [own]}})
    passes = Passes(api)
    passes.run(a=((1, 128), 5), b=((1, 128), 5))
    assert len(passes.points) == 1
    assert api.usage("a")["requests.cpu"] == 1.5
    (point,) = passes.points.values()
    assert set(passes.reservations) == {"train", f"reservation-{point['metadata']['name']}"}
    api.quotas["a"]["requests.cpu"] = "4"
    passes.run(a=((1, 128), 5))
    assert len(passes.points) == 3
    assert api.usage("a")["limits.memory"] == 3 * (128 + 96) * 2**20


def test_a_reservation_is_never_scheduled_and_shows_what_it_is_for(api: KubernetesApi) -> None:
    passes = Passes(api, {**CARD, "countedAs": "strata.dev/v100"})
    passes.run(a=((1, 128, 1), 1))
    (pod,) = passes.reservations.values()
    assert pod["spec"]["schedulingGates"] == [{"name": "strata.dev/reservation"}]
    assert pod["metadata"]["labels"]["strata.dev/reservation"] == "job"
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1000m", "memory": "224Mi", "nvidia.com/gpu": "1", "strata.dev/v100": "1"}


def test_a_point_whose_room_a_server_took_ends(api: KubernetesApi) -> None:
    passes = Passes(api)
    passes.run(a=((1, 128, 1), 1))
    (name,) = passes.points
    del passes.reservations[f"reservation-{name}"]
    server = {"name": "server", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    api.create("a", "pods", {"metadata": {"name": "reservation-jupyter-ada"}, "spec": {"containers": [server]}})
    passes.run(a=((1, 128, 1), 1))
    assert not passes.points
    assert set(passes.reservations) == {"reservation-jupyter-ada"}
    passes.reservations.clear()
    passes.run(a=((1, 128, 1), 1))
    assert len(passes.points) == 1


def test_room_comes_back_with_the_end_of_a_point(api: KubernetesApi) -> None:
    passes = Passes(api)
    passes.run(a=((1, 128), 2))
    ended, other = passes.points.values()
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    passes.queue.busy.add(other["metadata"]["name"])
    passes.run()
    assert set(passes.reservations) == {f"reservation-{other['metadata']['name']}"}


def test_points_of_an_earlier_release_end_by_themselves(api: KubernetesApi) -> None:
    passes = Passes(api)
    passes.run(a=((1, 128), 1))
    (point,) = passes.points.values()
    del point["metadata"]["annotations"]
    passes.reservations.clear()
    passes.run(a=((1, 128), 1))
    assert list(passes.points.values()) == [point]


def test_room_that_was_taken_meanwhile_makes_no_point(api: KubernetesApi) -> None:
    passes = Passes(api)
    created = api.create

    def late(namespace: str, resource: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if resource == "pods":
            return 403, {"message": "pods is forbidden: exceeded quota: a"}
        return created(namespace, resource, given)

    api.create = late  # type: ignore[method-assign]  # the room goes between the reading and the writing
    passes.run(a=((1, 128), 1))
    assert not passes.points


def test_a_job_shows_who_uses_what_it_waits_for(api: KubernetesApi) -> None:
    """Until it runs; jobs for which there is room say nothing."""
    from strata_condor.plan import Shape

    passes = Passes(api)
    labels = {"labels": {"strata.dev/reservation": "server"}, "annotations": {"strata.dev/reserved-for": "ada"}}
    server = {"name": "server", "resources": {"requests": {"cpu": "1500m"}}}
    api.create("a", "pods", {"metadata": {"name": "reservation-1", **labels}, "spec": {"containers": [server]}})
    said = passes.queue.said
    said["a", "1.0"], said["b", "1.0"] = (Shape("a", 1, 128), ""), (None, "of a time before it ran")
    passes.run(a=((1, 128), 1))
    assert said["a", "1.0"][1] == "the quota of tenant a: CPUs are used by the server of ada"
    assert said["b", "1.0"] == (None, "")
    passes.reservations.clear()
    passes.run(a=((1, 128), 1))
    assert said["a", "1.0"][1] == ""
