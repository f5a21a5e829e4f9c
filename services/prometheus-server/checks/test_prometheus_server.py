"""Prometheus has what the site is: its targets, its pods, its cards."""

from __future__ import annotations

import json
import operator
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import pytest
import requests

from strata.catalogue.needs import Metrics
from strata.catalogue.needs.metrics import SCRAPERS
from strata.catalogue.published import published
from strata.catalogue.site_services import needed
from strata.models.site import Site
from strata.observe.metrics import Sample, metrics_of
from strata.platform.ingress import INGRESS_RELEASE
from strata.site.host_list import hosts, hosts_with
from strata.verify.pods import Kubectl, PodFailed, PodRequest, create, delete, run, running_pods
from strata.verify.waiting import settled
from strata_services.prometheus_server.grafana import dashboards, expressions
from strata_services.prometheus_server.service import SERVICE

if TYPE_CHECKING:
    from strata.site.context import SiteContext
    from strata.site.outputs import ImageOutputs

pytestmark = pytest.mark.xdist_group("prometheus")  # long, so among the first
SCRAPES = 4
"""So many intervals may pass until a new series is there: discovery, two samples, the rule."""
LATE_SECONDS = 120.0
"""Added to them on a loaded machine."""
Query = Callable[[str], list[Sample]]


@pytest.fixture(scope="module")
def query(site: Site, context: SiteContext) -> Query:
    """`query("up == 0")` → samples."""
    if SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    source = metrics_of(context)
    assert source is not None
    return source.query


class Eventually(Protocol):
    """`eventually(expression, complete)` → its samples, as soon as they are complete; without `complete`, any."""

    def __call__(self, expression: str, complete: Callable[[list[Sample]], bool] = bool) -> list[Sample]: ...


@pytest.fixture(scope="module")
def eventually(site: Site, query: Query) -> Eventually:
    """Samples of an expression as soon as they are complete."""
    settings = SERVICE.of(site)
    assert settings is not None
    seconds = SCRAPES * settings.scrape_interval + LATE_SECONDS

    def wait(expression: str, complete: Callable[[list[Sample]], bool] = bool) -> list[Sample]:
        return settled(lambda: query(expression), complete, seconds, pause=2)

    return wait


def labels(samples: list[Sample], name: str) -> set[str]:
    """The values of a label."""
    return {sample.labels[name] for sample in samples}


def test_every_target_is_up(eventually: Eventually) -> None:
    """Every target of Prometheus responds."""
    assert eventually('up{job="apiserver"}')
    # one that was restarted while it was scraped is up at the next scrape
    assert not [sample.labels for sample in eventually("up == 0", operator.not_)]


def test_what_the_site_declares_is_scraped(
    context: SiteContext, site: Site, eventually: Eventually, kubectl: Kubectl
) -> None:
    """Prometheus scrapes every host, every node, the ingress controller and each pod of services with metrics."""
    machines = {host.name for host in hosts(site, context.cloud_outputs)}
    nodes = {item["metadata"]["name"] for item in json.loads(kubectl("get", "nodes", "--output", "json"))["items"]}
    for job, names in (("node-exporter", machines), ("kubelet", nodes), ("cadvisor", nodes)):
        samples = eventually(f'up{{job="{job}"}} == 1', lambda samples, names=names: labels(samples, "node") == names)  # type: ignore[misc]
        assert labels(samples, "node") == names, job
    assert eventually(f'up{{job="{INGRESS_RELEASE}"}} == 1')
    for service, need in needed(site, Metrics):
        running = [pod["metadata"] for pod in running_pods(kubectl, service.name, service.namespace_of(site))]
        marks = need.access.annotations.items()
        pods = {pod["name"] for pod in running if marks <= pod.get("annotations", {}).items()}
        assert pods, service.name

        def complete(samples: list[Sample], pods: set[str] = pods) -> bool:
            return pods <= labels(samples, "pod") | _ended(kubectl, pods)

        assert complete(eventually(f'up{{service="{service.name}"}} == 1', complete)), service.name


def _ended(kubectl: Kubectl, pods: set[str]) -> set[str]:
    """Pods that are gone by now."""
    listed = json.loads(kubectl("get", "pods", "--all-namespaces", "--output", "json"))["items"]
    return pods - {pod["metadata"]["name"] for pod in listed if pod["status"]["phase"] == "Running"}


@pytest.mark.xdist_group("metrics-of-a-pod")  # waits for scrapes: beside the others
def test_cpu_of_a_pod_is_measured(eventually: Eventually, kubectl: Kubectl, images: ImageOutputs) -> None:
    """The CPU time of a pod that computes, and its memory, are in Prometheus."""
    name = f"check-metrics-{int(time.time())}"
    script = "import time; end = time.time() + 600\nwhile time.time() < end:\n  sum(range(200000)); time.sleep(0.02)"
    create(kubectl, "default", PodRequest(name, images.images["pod-base"], ["python3", "-c", script]))
    try:
        (seconds,) = eventually(f'sum(container_cpu_usage_seconds_total{{pod="{name}"}}) > 1')
        assert seconds.value < 600
        assert eventually(f'sum(container_memory_working_set_bytes{{pod="{name}"}}) > 1e6')
    finally:
        delete(kubectl, "default", name)


def test_cards_are_those_of_the_site(
    context: SiteContext, site: Site, eventually: Eventually, kubectl: Kubectl
) -> None:
    """Prometheus has metrics of each accelerator that a node offers, and of no other."""
    if not hosts_with("gpu_node", site, context.cloud_outputs):
        pytest.skip(f"site {site.name} has no GPU node")
    items = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    capacities = {n["metadata"]["name"]: int(n["status"]["capacity"].get("nvidia.com/gpu", 0)) for n in items}
    offered = {node: count for node, count in capacities.items() if count}

    def counts(samples: list[Sample]) -> dict[str, int]:
        return {sample.labels["node"]: int(sample.value) for sample in samples}

    expression = "count by (node) (max by (node, pci_bus_id) (DCGM_FI_DEV_GPU_UTIL))"
    assert counts(eventually(expression, lambda samples: counts(samples) == offered)) == offered


def test_every_panel_has_data(site: Site, eventually: Eventually, http: requests.Session) -> None:
    """Every panel of the dashboards of the site's services returns data, unless it states when it has none."""
    for entry in published(site):  # the ingress controller has no series of a service before its first request
        http.get(entry.health_url, timeout=30)
    assert eventually("site:accelerators:count or site:cpu_usage:rate5m")
    installed = {service.folder for service, _ in needed(site, Metrics)} | {SERVICE.folder}
    panels = [
        (path.name, expression)
        for path in dashboards()
        if path.parent.parent in installed
        for expression in expressions(path, full=True)
    ]
    # one query: each starts a process in Prometheus' pod
    query = " or ".join(
        f'label_replace(count({expression}), "panel", "{number}", "", "")'
        for number, (_, expression) in enumerate(panels)
    )
    full = labels(eventually(query, lambda samples: len(samples) == len(panels)), "panel")
    empty = [f"{name}: {text}" for number, (name, text) in enumerate(panels) if str(number) not in full]
    assert not empty, "\n".join(empty)


def test_prometheus_is_closed_to_other_pods(query: Query, kubectl: Kubectl, images: ImageOutputs, site: Site) -> None:
    """A pod of another namespace does not reach Prometheus."""
    assert query("up")
    (pod,) = running_pods(kubectl, SERVICE.name, SERVICE.namespace_of(site))
    assert SCRAPERS[0]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    probe = f"import socket; socket.create_connection(('{pod['status']['podIP']}', 9090), timeout=3)"
    name = f"check-closed-{int(time.time())}"
    with pytest.raises(PodFailed, match=r"timed out|refused|unreachable"):
        run(kubectl, "default", PodRequest(name, images.images["pod-base"], ["python3", "-c", probe]))
