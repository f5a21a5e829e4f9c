"""The configuration hook in a real JupyterHub with the real KubeSpawner, on PostgreSQL: what takes effect, and what an
attack does not reach."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
import requests

from strata_services.jupyterhub.service import SERVICE

from .running_hub import IMAGES, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")


@pytest.fixture
def hub(running_hub: Hub) -> Hub:
    """The hub, without configurations."""
    running_hub.clear()
    return running_hub


def test_user_beats_group_beats_tenant_at_the_next_start(hub: Hub) -> None:
    def stored(path: str, body: dict[str, Any]) -> None:
        response = hub.put("ada", f"research/configuration/{path}", body)
        assert (response.status_code, response.json()) == (200, body), response.text

    before = hub.container("bob")
    assert before["resources"]["limits"] == {"cpu": 2, "memory": 2**30}
    stored("tenant", {"mem_limit": "2G", "cpu_limit": 1, "environment": {"LEVEL": "tenant", "DATA": "{literal} %s"}})
    stored("groups/team", {"members": ["bob"], "mem_limit": "3G", "environment": {"LEVEL": "group"}})
    stored("groups/students", {"mem_limit": "5G"})
    assert hub.container("bob")["resources"]["limits"] == {"cpu": 1, "memory": 3 * 2**30}
    assert hub.container("carol")["resources"]["limits"]["memory"] == 5 * 2**30, "a group of the issuer"
    stored("users/bob", {"mem_limit": "4G", "image": IMAGES[0]})
    container = hub.container("bob")
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert container["image"] == IMAGES[0]
    assert container["resources"]["limits"] == {"cpu": 1, "memory": 4 * 2**30}
    assert (environment["LEVEL"], environment["DATA"]) == ("group", "{literal} %s")
    assert environment["MEM_LIMIT"] == str(4 * 2**30)
    assert hub.container("mallory")["resources"]["limits"]["memory"] == 2**30, "another tenant's"
    assert hub.call(hub.token("ada"), "DELETE", "/api/tenants/research/configuration/users/bob").status_code == 204
    assert hub.container("bob")["resources"]["limits"]["memory"] == 3 * 2**30


def test_group_gets_a_card_that_its_profile_has_not(hub: Hub) -> None:
    assert hub.put("ada", "research/configuration/groups/students", {"accelerators": {"v100": 1}}).ok
    spec = hub.pod("carol")["spec"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert spec["nodeSelector"]
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["nvidia.com/gpu"]
    assert "nvidia.com/gpu" not in hub.container("bob")["resources"]["limits"]


def test_only_the_tenants_administrators_read_and_write(hub: Hub) -> None:
    body = {"environment": {"STOLEN": "yes"}}
    strangers = {
        "nobody": None,
        "a forged token": "0" * 32,
        "a member": hub.token("bob"),
        "another tenant's administrator": hub.token("eve"),
        "an administrator of the hub": hub.operator,
        "the administrator's server": hub.token("ada", scopes=["access:servers!user=ada", "users:activity!user=ada"]),
    }
    for who, token in strangers.items():
        for method in ("GET", "PUT", "DELETE"):
            for path in ("tenant", "groups/students", "users/carol"):
                response = hub.call(token, method, f"/api/tenants/research/configuration/{path}", body)
                assert response.status_code == 403, (who, method, path, response.text)
        for path in ("configuration", "configuration/changes"):
            assert hub.call(token, "GET", f"/api/tenants/research/{path}").status_code == 403, (who, path)
    assert hub.put("ada", "no-such-tenant/configuration/tenant", {}).status_code == 403
    assert "STOLEN" not in json.dumps(hub.pod("carol"))


def test_configuration_of_a_tenant_reaches_no_server_of_another(hub: Hub) -> None:
    """Biology's administrator configures a member of research by name, and one who is in both."""
    for user in ("bob", "both"):
        assert hub.put("eve", f"biology/configuration/users/{user}", {"environment": {"STOLEN": "yes"}}).ok
        assert "STOLEN" not in json.dumps(hub.pod(user))


REFUSED = {
    "namespace": {"namespace": "kube-system"},
    "volumes": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    "service account": {"service_account": "hub"},
    "host path": {"extra_pod_config": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}},
    "host network": {"extra_pod_config": {"hostNetwork": True}},
    "security context": {"extra_pod_config": {"securityContext": {"runAsUser": 0}}},
    "service account of the pod": {"extra_pod_config": {"serviceAccountName": "hub"}},
    "containers": {"extra_pod_config": {"initContainers": [{"name": "a", "image": "b"}]}},
    "priority": {"extra_pod_config": {"priorityClassName": "platform"}},
    "tolerations": {"extra_pod_config": {"tolerations": [{"operator": "Exists"}]}},
    "control plane": {"extra_pod_config": {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}},
    "label of the tenant": {"extra_labels": {"strata.dev/tenant": "biology"}},
    "hub's variable": {"environment": {"JUPYTERHUB_API_URL": "http://evil"}},
    "loader": {"environment": {"LD_PRELOAD": "/home/evil.so"}},
    "batch system": {"environment": {"_CONDOR_COLLECTOR_HOST": "evil"}},
    "Dask clusters": {"environment": {"DASK_GATEWAY__ADDRESS": "http://evil"}},
    "proxy": {"environment": {"https_proxy": "http://evil"}},
    "not a string": {"environment": {"A": 1}},
    "image": {"image": "docker.io/evil/miner"},
    "image above": {"image": "registry.example.org/research/../other"},
    "memory": {"mem_limit": "17G"},
    "memory of the guarantee": {"mem_guarantee": "17G"},
    "no memory": {"mem_limit": "much"},
    "cpu": {"cpu_limit": 9},
    "infinite cpu": {"cpu_limit": "inf"},
    "guarantee": {"cpu_limit": 1, "cpu_guarantee": 2},
    "cards": {"accelerators": {"v100": 2}},
    "kind": {"accelerators": {"a100": 1}},
    "members of a tenant": {"members": ["bob"]},
    "callable": {"mem_limit": {"__call__": 1}},
    "no object": ["mem_limit"],
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_more_than_the_site_allows_is_refused(hub: Hub, body: Any) -> None:
    response = hub.put("ada", "research/configuration/tenant", body)
    assert response.status_code == 400, response.text
    message = response.json()["message"]
    assert message.startswith("tenant research, tenant: ")
    assert "; fix: " in message
    key = next(iter(body)) if isinstance(body, dict) else "body"
    assert key in message
    assert hub.call(hub.token("ada"), "GET", "/api/tenants/research/configuration").json()["tenant"] == {}


def test_tenant_without_cards_cannot_give_one(hub: Hub) -> None:
    response = hub.put("eve", "biology/configuration/groups/team", {"accelerators": {"v100": 1}})
    assert response.status_code == 400, response.text


def test_what_the_site_no_longer_allows_is_left_out(hub: Hub) -> None:
    assert hub.put("ada", "research/configuration/tenant", {"cpu_limit": 1}).ok
    text = json.dumps({"cpu_limit": 1, "mem_limit": "99G", "image": "old/image", "accelerators": {"v100": 9}})
    hub.server.sql(f"UPDATE strata_configuration SET value = '{text}'", hub.database)  # noqa: S608  # text is above
    container = hub.container("bob")
    assert container["resources"]["limits"] == {"cpu": 1, "memory": 2**30}
    assert container["image"] == "registry.example.org/notebook:1"


def test_every_change_is_recorded(hub: Hub) -> None:
    path = f"research/configuration/users/{quote('carol@example.org')}"
    for cpu in (1, 2, 2):
        assert hub.put("ada", path, {"cpu_limit": cpu}).ok
    assert hub.put("ada", path, {"cpu_limit": 99}).status_code == 400
    assert hub.call(hub.token("ada"), "DELETE", f"/api/tenants/{path}").status_code == 204
    changes = hub.call(hub.token("ada"), "GET", "/api/tenants/research/configuration/changes").json()[:3]
    assert [
        (change["by"], change["kind"], change["name"], change["before"], change["after"]) for change in changes
    ] == [
        ("ada", "users", "carol@example.org", {"cpu_limit": 2}, None),
        ("ada", "users", "carol@example.org", {"cpu_limit": 1}, {"cpu_limit": 2}),
        ("ada", "users", "carol@example.org", None, {"cpu_limit": 1}),
    ]
    assert all(change["at"].endswith("+00:00") for change in changes)


def test_commands_read_the_configuration_of_a_running_hub(hub: Hub) -> None:
    """They begin nothing that the hub does: its ports are taken."""
    hub.token("ada")
    done = hub.run("token", "ada")
    assert done.returncode == 0, done.stderr
    assert hub.call(done.stdout.strip(), "GET", "/api/user").json()["name"] == "ada"


def test_metrics_are_served_beside_the_published_port(hub: Hub) -> None:
    given = json.loads((hub.directory / "hub.json").read_text())
    text = requests.get(f"http://127.0.0.1:{given['values']['custom']['metricsPort']}/metrics", timeout=60).text
    dashboard = (SERVICE.folder / "dashboards" / "jupyterhub.json").read_text()
    for metric in ("jupyterhub_running_servers", "jupyterhub_server_spawn_duration_seconds", "jupyterhub_active_users"):
        assert metric in text
        assert metric in dashboard
    assert requests.get(f"{hub.url}/metrics", timeout=60).status_code == 403
