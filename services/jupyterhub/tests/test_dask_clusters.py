"""Dask clusters in a real JupyterHub: what a server's token and the gateway's show, and what the server's pod has."""

from __future__ import annotations

import pytest

from strata_services.dask_gateway.needs import NAME

from .running_hub import IMAGES, SERVICE_TOKEN, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
OPTIONS = "DASK_GATEWAY__CLUSTER__OPTIONS__"


@pytest.fixture
def hub(running_hub: Hub) -> Hub:
    """The hub, without configurations."""
    running_hub.clear()
    return running_hub


def environment(hub: Hub, user: str) -> dict[str, str]:
    return {variable["name"]: variable.get("value") for variable in hub.container(user)["env"]}


def test_the_client_needs_no_arguments(hub: Hub) -> None:
    variables = environment(hub, "eve")
    assert variables["DASK_GATEWAY__ADDRESS"] == "http://dask-gateway.dask-gateway.svc:8000"
    assert variables["DASK_GATEWAY__PROXY_ADDRESS"] == "gateway://dask-gateway.dask-gateway.svc:8000"
    assert variables[f"{OPTIONS}TENANT"] == "biology"
    assert variables[f"{OPTIONS}IMAGE"] == "registry.example.org/notebook:1"


def test_clusters_have_the_image_that_the_tenant_configured(hub: Hub) -> None:
    assert hub.put("ada", "research/configuration/users/bob", {"image": IMAGES[0]}).ok
    assert environment(hub, "bob")[f"{OPTIONS}IMAGE"] == IMAGES[0]
    assert environment(hub, "carol")[f"{OPTIONS}IMAGE"] == "registry.example.org/notebook:1"


def test_a_servers_token_shows_its_user_and_may_use_the_gateway(hub: Hub) -> None:
    """As JupyterHubAuthenticator of Dask Gateway reads it."""
    access = f"access:services!service={NAME}"
    token = hub.token("both", scopes=["access:servers!server=both/", "users:activity!user=both", access])
    shown = hub.call(token, "GET", "/api/user").json()
    assert (shown["kind"], shown["name"]) == ("user", "both")
    assert {"/tenants/research", "/tenants/biology"} <= set(shown["groups"])
    assert access in shown["scopes"]
    without = hub.token("both", scopes=["users:activity!user=both"])
    assert access not in hub.call(without, "GET", "/api/user").json()["scopes"]


def test_the_gateway_sees_which_servers_run_and_nothing_else(hub: Hub) -> None:
    hub.token("ann@example.org")
    path = "/api/users/ann%40example.org"
    shown = hub.call(SERVICE_TOKEN, "GET", path).json()
    assert shown["servers"] == {}
    assert not {"groups", "auth_state", "roles"} & shown.keys()
    assert hub.call(SERVICE_TOKEN, "GET", "/api/users/nobody-like-this").status_code == 404
    assert hub.call(SERVICE_TOKEN, "DELETE", f"{path}/server").status_code in (403, 404)
    assert hub.call(SERVICE_TOKEN, "POST", f"{path}/tokens").status_code in (403, 404)
