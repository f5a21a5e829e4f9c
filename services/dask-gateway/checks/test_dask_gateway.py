"""Dask clusters: the gateway, as browsers and pods reach it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import requests

from strata.catalogue.published import published
from strata.verify.pods import Kubectl
from strata_services.dask_gateway.needs import NAME, NAMESPACE
from strata_services.dask_gateway.service import SERVICE

if TYPE_CHECKING:
    from strata.site.context import SiteContext

SECONDS = 60


@pytest.fixture(scope="module")
def url(context: SiteContext) -> str:
    """The gateway, as browsers reach it."""
    if SERVICE.of(context.site) is None:
        pytest.skip(f"site {context.site.name} has no platform.services.{SERVICE.key}")
    (address,) = (entry.url for entry in published(context.site) if entry.key == SERVICE.key)
    return address.rstrip("/")


def test_only_dashboards_are_published_on_a_host_without_logins(
    context: SiteContext, http: requests.Session, url: str
) -> None:
    """Dask Gateway responds at its own name; its API is not published, and none of it is on JupyterHub's host."""
    assert http.get(f"{url}/api/health", timeout=SECONDS).json() == {"status": "pass"}
    assert http.get(f"{url}/api/v1/clusters/", timeout=SECONDS).status_code == 404
    assert http.get(f"{url}/clusters/research.none/status", timeout=SECONDS).status_code == 404
    (hub,) = (entry.url for entry in published(context.site) if entry.key == "jupyterhub")
    assert http.get(f"{hub}services/{NAME}/api/health", timeout=SECONDS).status_code == 404


@pytest.mark.usefixtures("url")
def test_the_controller_runs(kubectl: Kubectl) -> None:
    """Dask Gateway's pod runs with its controller, and every running cluster has a scheduler."""
    listed = json.loads(kubectl("get", "pods", "--namespace", NAMESPACE.name, "--output", "json"))["items"]
    ready = {
        container["name"]: container["ready"]
        for pod in listed
        for container in pod["status"].get("containerStatuses", ())
    }
    assert ready == {"controller": True, "gateway": True}
    clusters = json.loads(kubectl("get", "daskclusters", "--all-namespaces", "--output", "json"))["items"]
    pods = ("get", "pods", "--all-namespaces", "--selector=app.kubernetes.io/component=dask-scheduler", "--output=json")
    schedulers = {pod["metadata"]["name"] for pod in json.loads(kubectl(*pods))["items"]}
    running = {f"dask-scheduler-{cluster['metadata']['name']}" for cluster in clusters if phase(cluster) == "Running"}
    ended = {
        f"dask-scheduler-{cluster['metadata']['name']}"
        for cluster in clusters
        if phase(cluster) in ("Stopped", "Failed")
    }
    assert running <= schedulers
    assert not ended & schedulers


def phase(cluster: dict[str, dict[str, str]]) -> str:
    """Of a DaskCluster."""
    return cluster.get("status", {}).get("phase", "Pending")
