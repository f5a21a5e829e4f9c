"""What the API accepts, refuses and shows, on a real PostgreSQL; nothing reconciles."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from strata_bench.service_processes import Service
from strata_bench.services import PostgreSQL
from strata_bench.token_issuer import Issuer

from .users import IMAGE, User

SPEC = {"pod_id": "web1", "image": IMAGE}


def assert_refused(answer: requests.Response, status: int, *parts: str) -> None:
    """An error in Tapis' envelope that names what is wrong."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert body.keys() == {"message", "metadata", "result", "status", "version"}
    assert (body["status"], body["result"]) == ("error", None)
    for part in parts:
        assert part in str(body["message"]), body


def test_a_new_pod_has_the_defaults_of_tapis(alice: User) -> None:
    answer = alice("POST", "", SPEC)
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert body.keys() == {"message", "metadata", "result", "status", "version"}
    pod = body["result"]
    assert (pod["status"], pod["status_requested"], pod["compute_queue"]) == ("REQUESTED", "ON", "research")
    assert pod["resources"] == {
        "cpu_request": 250, "cpu_limit": 2000, "mem_request": 256, "mem_limit": 3072, "gpus": 0,
        "gpu_minimum_utilization": 0, "gpu_idle_seconds": 3600,
    }  # fmt: skip
    assert pod["networking"] == {
        "default": {
            "protocol": "http",
            "port": 5000,
            "url": "web1.pods.lab.strata.test",
            "ip_allow_list": [],
            "tapis_auth": False,
            "tapis_auth_allowed_users": ["*"],
            "tapis_auth_response_headers": {},
            "tapis_auth_return_path": "/",
        }
    }
    assert (pod["time_to_stop_default"], pod["time_to_stop_instance"]) == (43200, None)
    assert alice.pod("web1") == pod
    assert alice("GET").json()["result"] == [pod]
    assert not {"user_password", "run", "log", "deleted"} & pod.keys()


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"pod_id": "Web1"}, ["body.pod_id"]),
        ({"pod_id": "ab"}, ["body.pod_id"]),
        ({"pod_id": "a" * 59}, ["body.pod_id"]),
        ({"pod_id": "web1\n"}, ["body.pod_id"]),
        ({"pod_id": "../etc"}, ["body.pod_id"]),
        ({"pod_id": "volumes"}, ["body.pod_id", "reserved"]),
        ({"image": "registry.example.org:5000/site/other"}, ["image", "research", IMAGE]),
        ({"image": f"{IMAGE}2"}, ["not on the list"]),
        ({"image": "registry.example.org:5000/open/../site/other"}, ["is not an image"]),
        ({"image": "registry.example.org:5000/openx"}, ["not on the list"]),
        ({"image": "http://169.254.169.254/latest"}, ["is not an image"]),
        ({"image": "nginx"}, ["docker.io/library/nginx"]),
        ({"image": ""}, ["image is missing"]),
        ({"image": "", "template": "a b"}, ["is not a template"]),
        ({"image": "", "template": "postgres:latest"}, ["there is no template postgres"]),
        ({"volume_mounts": {"/data": {"type": "tapisvolume", "source_id": "v"}}}, ["there is no volume v"]),
        ({"networking": {"default": {"protocol": "udp", "port": 1}}}, ["body.networking.default.protocol"]),
        ({"networking": {"default": {"port": 80, "tapis_ui_uri": "/a"}}}, ["tapis_ui_uri is not available"]),
        ({"networking": {"default": {"ip_allow_list": ["a`) || Host(`b"]}}}, ["ip_allow_list.0", "192.0.2.0/24"]),
        ({"networking": {"default": {"ip_allow_list": ["fe80::1%eth0"]}}}, ["is neither an address nor a network"]),
        ({"networking": {"default": {"ip_allow_list": ["192.0.2.7/24"]}}}, ["write 192.0.2.0/24 for the network"]),
        ({"networking": {"default": {"ip_allow_list": ["::1"] * 65}}}, ["body.networking.default.ip_allow_list"]),
        ({"networking": {"default": {"protocol": "local_only", "ip_allow_list": ["::1"]}}}, ["no name leads to"]),
        ({"networking": {"default": {"port": 70000}}}, ["body.networking.default.port"]),
        ({"networking": {"a b": {"port": 80}}}, ["body.networking"]),
        ({"networking": {"key`) || Host(`x": {"port": 80}}}, ["body.networking"]),
        ({"networking": {f"key{n}": {"port": 80 + n} for n in range(5)}}, ["body.networking"]),
        ({"pod_id": "a" * 58, "networking": {"default": {}, "metrics": {"port": 1}}}, ["longer than 63"]),
        ({"resources": {"cpu_request": 100}}, ["body.resources.cpu_request"]),
        ({"resources": {"mem_request": 1024, "mem_limit": 512}}, ["mem_request 1024 is more than mem_limit 512"]),
        ({"resources": {"gpus": 1}}, ["resources.gpus", "quota of tenant research"]),
        ({"resources": {"gpu_minimum_utilization": 5}}, ["the pod has no GPU; set resources.gpus too"]),
        ({"resources": {"gpu_minimum_utilization": 101}}, ["body.resources.gpu_minimum_utilization"]),
        ({"resources": {"gpu_idle_seconds": 599}}, ["body.resources.gpu_idle_seconds"]),
        ({"description": "x" * 255}, ["body.description"]),
        ({"description": "für"}, ["body.description", "ASCII"]),
        ({"time_to_stop_default": 299}, ["body.time_to_stop_default"]),
        ({"command": ["a\0b"]}, ["body.command.0"]),
        ({"environment_variables": {"A": "\ud800"}}, ["body.environment_variables.A"]),
        ({"environment_variables": {"A=B": "x"}}, ["body.environment_variables"]),
        ({"environment_variables": {"A": 5}}, ["body.environment_variables.A"]),
        ({"compute_queue": "teaching"}, ["teaching is none of your tenants: research"]),
        ({"status_requested": "SOMETIMES"}, ["body.status_requested"]),
        ({"secret": "x"}, ["body.secret"]),
    ],
)
def test_wrong_fields_are_named(alice: User, fields: dict[str, Any], parts: list[str]) -> None:
    assert_refused(alice("POST", "", {**SPEC, **fields}), 400, *parts)
    assert alice("GET").json()["result"] == []


def test_the_tenant_is_the_only_one_or_named(user: Callable[..., User], alice: User) -> None:
    both = user("bob", "research", "teaching", "unknown")
    assert_refused(both("POST", "", SPEC), 400, "name one of your tenants: research, teaching")
    assert both.create("web1", compute_queue="teaching")["compute_queue"] == "teaching"
    assert_refused(user("carl")("POST", "", SPEC), 400, "name one of your tenants: none")
    assert_refused(both("POST", "", {**SPEC, "pod_id": "big", "compute_queue": "teaching",
                                     "resources": {"mem_limit": 8192}}), 400, "mem_limit: 8192", "4096")  # fmt: skip


def test_a_name_is_given_once(alice: User, user: Callable[..., User]) -> None:
    others = [alice, user("bob", "research"), user("carol", "teaching")] * 4
    with ThreadPoolExecutor(12) as threads:
        statuses = sorted(answer.status_code for answer in threads.map(lambda client: client("POST", "", SPEC), others))
    assert statuses == [200, *[409] * 11]


def test_levels_of_permission(alice: User, user: Callable[..., User]) -> None:
    alice.create("web1")
    bob, members = user("bob", "research"), ["alice:ADMIN", "bob:READ"]
    assert_refused(bob("GET", "/web1"), 404, "web1")
    granted = alice("POST", "/web1/permissions", {"user": "bob", "level": "READ"})
    assert granted.json()["result"] == {"permissions": members}
    assert bob.pod("web1")["pod_id"] == "web1"
    assert bob("GET", "/web1/logs").status_code == 200
    for method, path, body in (
        ("GET", "/web1/credentials", None),
        ("GET", "/web1/permissions", None),
        ("PUT", "/web1", {"description": "bob's"}),
        ("GET", "/web1/stop", None),
        ("DELETE", "/web1", None),
        ("POST", "/web1/permissions", {"user": "bob", "level": "ADMIN"}),
        ("DELETE", "/web1/permissions/alice", None),
    ):
        assert_refused(bob(method, path, body), 403, "you have READ")
    alice("POST", "/web1/permissions", {"user": "bob", "level": "USER"})
    assert bob("PUT", "/web1", {"description": "bob's"}).status_code == 200
    assert bob("GET", "/web1/credentials").json()["result"]["user_username"] == "web1"
    assert bob("GET", "/web1/permissions").json()["result"] == {"permissions": ["alice:ADMIN", "bob:USER"]}
    assert_refused(bob("PUT", "/web1", {"status_requested": "OFF"}), 403, "ADMIN")
    assert alice.pod("web1")["status_requested"] == "ON"
    assert_refused(alice("DELETE", "/web1/permissions/alice"), 400, "last ADMIN")
    assert_refused(alice("POST", "/web1/permissions", {"user": "alice", "level": "READ"}), 400, "last ADMIN")
    alice("POST", "/web1/permissions", {"user": "bob", "level": "ADMIN"})
    assert bob("DELETE", "/web1/permissions/alice").status_code == 200
    assert_refused(alice("GET", "/web1"), 404)
    assert_refused(bob("DELETE", "/web1/permissions/nobody"), 404, "nobody")


def test_a_permission_holds_for_members_of_the_tenant(alice: User, user: Callable[..., User]) -> None:
    """One who leaves it, or was never in it, has none."""
    alice.create("web1")
    alice("POST", "/web1/permissions", {"user": "eve", "level": "ADMIN"})
    eve = user("eve", "teaching")
    assert eve("GET").json()["result"] == []
    for method, path in (
        ("GET", ""), ("GET", "/logs"), ("GET", "/credentials"), ("GET", "/restart"), ("DELETE", ""), ("PUT", ""),
        ("GET", "/permissions"),
    ):  # fmt: skip
        assert_refused(eve(method, f"/web1{path}", {} if method == "PUT" else None), 404)
    left = user("alice")
    assert_refused(left("GET", "/web1"), 404)
    assert user("eve", "research").pod("web1")["pod_id"] == "web1"


def test_two_admins_cannot_remove_each_other_at_once(alice: User, user: Callable[..., User]) -> None:
    alice.create("web1")
    bob = user("bob", "research")
    alice("POST", "/web1/permissions", {"user": "bob", "level": "ADMIN"})
    with ThreadPoolExecutor(2) as threads:
        pair = ((alice, "bob"), (bob, "alice"))
        statuses = sorted(
            threads.map(lambda entry: entry[0]("DELETE", f"/web1/permissions/{entry[1]}").status_code, pair)
        )
    assert statuses in ([200, 400], [200, 404])


def test_changes_and_states(alice: User) -> None:
    created = alice.create("web1", status_requested="OFF", description="first")
    assert (created["status"], created["status_requested"]) == ("STOPPED", "OFF")
    unchanged = alice("PUT", "/web1", {"description": "first"}).json()
    assert (unchanged["message"], unchanged["result"]) == ("Pod unchanged.", created)
    changed = alice("PUT", "/web1", {"description": "second", "time_to_stop_instance": 600}).json()["result"]
    assert (changed["description"], changed["time_to_stop_instance"]) == ("second", 600)
    assert_refused(alice("PUT", "/web1", {"image": IMAGE}), 400, "body.image")
    started = alice("POST", "/web1/start").json()["result"]
    assert (started["status"], started["status_requested"]) == ("REQUESTED", "ON")
    assert started["time_to_stop_instance"] is None
    assert_refused(alice("POST", "/web1/start"), 409, "REQUESTED")
    assert alice("POST", "/web1/restart").json()["result"]["status_requested"] == "RESTART"
    assert alice("GET", "/web1/stop").json()["result"]["status_requested"] == "OFF"
    actions = alice("GET", "/web1/logs").json()["result"]["action_logs"]
    assert [line.partition(": ")[2] for line in actions][:2] == [
        "created by alice",
        "alice changed description, time_to_stop_instance",
    ]


def test_credentials_stay(alice: User) -> None:
    alice.create("web1")
    first, second = (alice("GET", "/web1/credentials").json()["result"] for _ in range(2))
    assert first == second
    assert len(first["user_password"]) == 30


@pytest.mark.parametrize("path", ["/a%00b", "/" + "a" * 100, "/..%2f..", "/none/logs", "/none/nothing"])
def test_paths_of_nothing(alice: User, path: str) -> None:
    assert alice("GET", path).status_code in (400, 404)


def test_without_a_token(api: Service, issuer: Issuer) -> None:
    for headers in ({}, {"X-Tapis-Token": "rubbish"}, {"X-Tapis-Token": issuer.token(aud="other")}):
        assert_refused(requests.get(f"{api.url}/v3/pods", headers=headers, timeout=60), 401)
    assert requests.get(f"{api.url}/v3/pods/openapi.json", timeout=60).status_code == 200


def test_passwords_and_environment_are_in_no_log(alice: User, api: Service) -> None:
    alice.create("web1", environment_variables={"SECRET": "needle-in-the-environment"})
    password = alice("GET", "/web1/credentials").json()["result"]["user_password"]
    alice("PUT", "/web1", {"environment_variables": {"SECRET": "another-needle"}})
    api.logged(path="/v3/pods/web1", method="PUT")
    assert not [word for word in (password, "needle") if word in api.log]


def test_ports_with_names_have_urls_and_lists_of_addresses(alice: User) -> None:
    allowed = ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7"]
    networking = {
        "default": {"protocol": "postgres", "port": 5432, "ip_allow_list": allowed},
        "line": {"protocol": "tcp", "port": 7},
        "inner": {"protocol": "local_only", "port": 8},
    }
    ports = alice.create("db1", networking=networking, status_requested="OFF")["networking"]
    assert ports["default"]["ip_allow_list"] == allowed
    assert {key: entry["url"] for key, entry in ports.items()} == {
        "default": "db1.pods.lab.strata.test", "line": "db1-line.pods.lab.strata.test", "inner": "",
    }  # fmt: skip


def test_a_row_of_an_earlier_release_is_unchanged_by_the_same_values(
    alice: User, postgresql: PostgreSQL, environment: dict[str, str]
) -> None:
    alice.create("web1", status_requested="OFF", description="same")
    older = "UPDATE pods SET spec = spec #- '{networking,default,ip_allow_list}' WHERE pod_id = 'web1'"
    postgresql.sql(older, environment["PODS_DATABASE_NAME"])
    assert alice("PUT", "/web1", {"description": "same"}).json()["message"] == "Pod unchanged."
