"""Clusters of the real gateway and the real controller: whose they are, what their pods are, and when they end."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata_bench.api_server import ApiServer
from strata_bench.services import service_python
from strata_services.dask_gateway.needs import NAME
from strata_services.dask_gateway.service import SERVICE

from .real_gateway import IMAGE, Gateway, now, running, until

BIOLOGY = {"name": "biology", "quota": {"cpu": 2, "memory": "4 GiB"}, "group_id": 20003}


@pytest.fixture(scope="module")
def _gateways(api_server: ApiServer) -> Iterator[tuple[ExitStack, list[Gateway]]]:
    """The gateway, once it runs; it ends before the API server."""
    assert api_server
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture
def gateway(
    _gateways: tuple[ExitStack, list[Gateway]],
    api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
    lab_with: Callable[..., Path],
    releases_of: Callable[..., dict[str, list[dict[str, Any]]]],
) -> Iterator[Gateway]:
    """Of the lab with a second tenant; users have no clusters."""
    stack, gateways = _gateways
    if not gateways:
        site_file = lab_with(SERVICE, maximum_workers=3)
        content = yaml.safe_load(site_file.read_text())
        content["platform"]["tenants"].append(BIOLOGY)
        site_file.write_text(yaml.safe_dump(content))
        made = releases_of(site_file, NAME, "dask-tenant", "cluster-base")
        charts = {name.removeprefix("dask-tenant-"): objects for name, objects in made.items()}
        context = running(api_server, tmp_path_factory.mktemp("gateway"), charts, ("research", "biology"))
        gateways.append(stack.enter_context(context))
    (shared,) = gateways
    shared.hub.started = {user: now() - timedelta(minutes=5) for user in ("ada", "eve", "nobody")}
    yield shared
    shared.hub.up = shared.hub.scope = True
    shared.hub.started = {}
    until("clusters stay", lambda: not clusters(shared, "ada") and not clusters(shared, "eve"), shared.log)


def clusters(gateway: Gateway, user: str) -> Any:
    """Of a user."""
    return gateway.call(user, "GET", "/clusters/").json()


def test_pods_of_a_cluster_are_the_users_in_the_namespace_of_the_tenant(gateway: Gateway) -> None:
    notebook = service_python("jupyterhub/images/notebook").parent
    namespace, name = gateway.running_cluster("ada", worker_cores=2, worker_memory=0.5)
    assert namespace == "research"
    (secret,) = gateway.objects("secrets", namespace, name)
    token = base64.b64decode(secret["data"]["api-token"]).decode()
    assert gateway.heartbeat(namespace, name, "forged", 2).status_code == 401
    # more than maximum_workers
    assert gateway.heartbeat(namespace, name, token, 5).ok
    cluster_pods = until(
        "no workers", lambda: len(pods := gateway.objects("pods", namespace, name)) == 4 and pods, gateway.log
    )
    for pod in cluster_pods:
        assert pod["metadata"]["annotations"]["hub.jupyter.org/username"] == "ada"
        (container,) = pod["spec"]["containers"]
        assert container["image"] == IMAGE
        # of the notebook image
        assert (notebook / container["args"][0]).exists()
        assert pod["spec"]["automountServiceAccountToken"] is False
    priorities = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["spec"]["priorityClassName"]
        for pod in cluster_pods
    }
    assert priorities == {"dask-scheduler": "interactive", "dask-worker": "batch"}
    worker = next(pod for pod in cluster_pods if "dask-worker" in pod["metadata"]["name"])
    resources = worker["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "2", "memory": str(2**29)}
    assert resources["requests"]["memory"] == str(2**29)
    # what is not deleted by the controller has an owner that is
    (scheduler,) = (pod for pod in cluster_pods if pod is not worker and "scheduler" in pod["metadata"]["name"])
    owners = {owner["uid"] for pod in cluster_pods for owner in pod["metadata"]["ownerReferences"]}
    (service,) = gateway.objects("services", namespace, name)
    assert owners - {scheduler["metadata"]["uid"]} == {scheduler["metadata"]["ownerReferences"][0]["uid"]}
    assert [owner["uid"] for owner in service["metadata"]["ownerReferences"]] == [scheduler["metadata"]["uid"]]


def test_others_reach_no_cluster_and_need_a_tenant(gateway: Gateway) -> None:
    namespace, name = gateway.running_cluster("ada")
    cluster = f"/clusters/{namespace}.{name}"
    assert "tls_key" in gateway.call("ada", "GET", cluster).json()
    assert gateway.call("eve", "GET", cluster).status_code == 403
    assert gateway.call("eve", "DELETE", cluster).status_code == 403
    assert gateway.call("eve", "POST", f"{cluster}/scale", {"count": 1}).status_code == 403
    assert gateway.call("eve", "GET", "/clusters/").json() == {}
    assert gateway.call("mallory", "GET", "/clusters/").status_code in (401, 500)
    assert requests.get(f"{gateway.url}/api/v1/clusters/", timeout=30).status_code == 401
    refused = gateway.create("eve", tenant="research")
    assert (refused.status_code, "tenant" in refused.text) == (422, True)
    refused = gateway.create("nobody")
    assert refused.status_code in (403, 422)
    assert gateway.status("ada", f"{namespace}.{name}") == "RUNNING"


def test_the_token_of_a_server_without_the_scope_is_refused(gateway: Gateway) -> None:
    gateway.hub.scope = False
    assert gateway.create("eve").status_code == 401


@pytest.mark.parametrize(
    ("options", "named"),
    [({"worker_cores": 5}, "worker_cores"), ({"worker_memory": 9.0}, "worker_memory"), ({"image": ""}, "image")],
)
def test_options_beyond_the_limits_are_refused(gateway: Gateway, options: dict[str, Any], named: str) -> None:
    refused = gateway.create("eve", **options)
    assert refused.status_code == 422
    assert named in refused.json()["error"]


def test_a_user_has_as_many_clusters_as_allowed(gateway: Gateway) -> None:
    assert gateway.create("ada").status_code == 201
    refused = gateway.create("ada")
    assert refused.status_code == 422
    assert "may have 1" in refused.json()["error"]
    # not another's
    assert gateway.create("eve").status_code == 201


def test_a_cluster_ends_with_its_server(gateway: Gateway) -> None:
    namespace, name = gateway.running_cluster("ada")
    dashboard = f"{gateway.url}/clusters/{namespace}.{name}/status"
    # the proxy knows the way; nothing responds there
    assert until("no route", lambda: requests.get(dashboard, timeout=30).status_code == 502, gateway.log)
    del gateway.hub.started["ada"]
    until("pods stay", lambda: not live(gateway, namespace, name), gateway.log)
    until("a route stays", lambda: requests.get(dashboard, timeout=30).status_code == 404, gateway.log)
    assert gateway.objects("secrets", namespace, name) == []


def test_a_cluster_ends_when_its_server_was_restarted(gateway: Gateway) -> None:
    namespace, name = gateway.running_cluster("ada")
    gateway.hub.started["ada"] = now() + timedelta(seconds=2)
    until("pods stay", lambda: not live(gateway, namespace, name), gateway.log)


def test_a_hub_that_is_down_ends_no_cluster(gateway: Gateway) -> None:
    namespace, name = gateway.running_cluster("ada")
    checks = gateway.log.read_text().count("is not checked")
    gateway.hub.up = False
    until("no check", lambda: gateway.log.read_text().count("is not checked") > checks + 2)
    assert live(gateway, namespace, name)


def test_parts_that_were_killed_leave_no_orphans(gateway: Gateway) -> None:
    namespace, name = gateway.running_cluster("ada")
    gateway.kill("controller")
    gateway.kill("gateway")
    del gateway.hub.started["ada"]
    gateway.start("gateway")
    gateway.start("controller")
    until("pods stay", lambda: not live(gateway, namespace, name), gateway.log)
    until("the Secret stays", lambda: not gateway.objects("secrets", namespace, name), gateway.log)


def live(gateway: Gateway, namespace: str, name: str) -> list[str]:
    """The schedulers' pods; without a kubelet, a deleted one has a timestamp of its deletion or is gone."""
    pods = gateway.objects("pods", namespace, name)
    return [
        pod["metadata"]["name"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and "scheduler" in pod["metadata"]["name"]
    ]
