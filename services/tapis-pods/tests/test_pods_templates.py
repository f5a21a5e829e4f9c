"""Templates with tags: what a pod takes from one, who may use it, what changes of it leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strata_bench.services import PostgreSQL

from .conftest import TEMPLATES
from .test_pods_api import assert_refused
from .users import IMAGE, User

DEFINITION: dict[str, Any] = {
    "image": IMAGE,
    "command": ["run"],
    "environment_variables": {"A": "template", "B": "template"},
    "networking": {"default": {"port": 8000}, "admin": {"port": 8001, "protocol": "local_only"}},
    "resources": {"mem_limit": 1024},
}


def add(user: User, name: str, definition: dict[str, Any], tag: str = "latest") -> str:
    """A state of a template; its tag@timestamp."""
    body = {"pod_definition": definition, "commit_message": "changed", "tag": tag}
    answer = user("POST", f"/templates/{name}/tags", body)
    assert answer.status_code == 200, answer.text
    timestamp: str = answer.json()["result"]["tag_timestamp"]
    return timestamp


@pytest.fixture
def server(alice: User) -> User:
    """alice, with the template `server`."""
    answer = alice("POST", "/templates", {"template_id": "server", "description": "hers", "metatags": ["web"]})
    assert answer.status_code == 200, answer.text
    add(alice, "server", DEFINITION)
    return alice


def test_a_pod_takes_what_it_does_not_set(server: User) -> None:
    pod = server.create(
        "web1", image="", template="server", environment_variables={"B": "pod"}, resources={"cpu_limit": 1000},
        networking={"default": {"port": 9000}},
    )  # fmt: skip
    assert (pod["image"], pod["command"]) == (IMAGE, ["run"])
    assert pod["environment_variables"] == {"A": "template", "B": "pod"}
    assert (pod["resources"]["mem_limit"], pod["resources"]["cpu_limit"], pod["resources"]["cpu_request"]) == (
        1024, 1000, 250,
    )  # fmt: skip
    assert {key: entry["port"] for key, entry in pod["networking"].items()} == {"default": 9000, "admin": 8001}
    assert pod["template"].startswith("server:latest@")
    assert server("GET", "/web1/derived").json()["result"] == pod
    assert server.create("web2", template="server", image=f"{IMAGE}:2")["image"] == f"{IMAGE}:2"


def test_a_pod_keeps_the_state_that_it_was_made_of(server: User) -> None:
    before = server.create("web1", image="", template="server", environment_variables={"A": "pod"})
    add(server, "server", {**DEFINITION, "command": ["newer"], "environment_variables": {"A": "newer", "C": "newer"}})
    assert server("POST", "/web1/restart").json()["result"]["command"] == ["run"]
    assert server("PUT", "/web1", {"description": "mine"}).status_code == 200
    pinned = server.create("web2", image="", template=before["template"])
    assert (pinned["command"], pinned["template"]) == (["run"], before["template"])
    latest = server("GET", "/web1/restart?grab_latest_template_tag=true").json()["result"]
    assert (latest["command"], latest["description"]) == (["newer"], "mine")
    assert latest["environment_variables"] == {"A": "pod", "C": "newer"}
    assert latest["template"] != before["template"]
    assert server("DELETE", "/templates/server").status_code == 200
    assert server.pod("web1")["command"] == ["newer"]
    assert server("POST", "/web2/restart").status_code == 200
    assert_refused(server("GET", "/web2/restart?grab_latest_template_tag=true"), 400, "no template server")
    plain = server.create("web3")
    assert (plain["template"], plain["command"]) == ("", None)
    assert_refused(server("GET", "/web3/restart?grab_latest_template_tag=true"), 400, "without a template")


def test_two_levels(server: User) -> None:
    server("POST", "/templates", {"template_id": "second"})
    add(server, "second", {"template": "server", "environment_variables": {"B": "second"}}, "v1.0")
    server("DELETE", "/templates/server")
    pod = server.create("web1", image="", template="second:v1.0")
    assert pod["environment_variables"] == {"A": "template", "B": "second"}
    assert pod["template"].startswith("second:v1.0@")
    assert_refused(server("POST", "", {"pod_id": "web2", "template": "second"}), 400, "second has no tag latest")
    third = {"pod_definition": {"template": "second:v1.0"}, "commit_message": ""}
    assert_refused(server("POST", "/templates/second/tags", third), 400, "adds to another template")


@pytest.mark.parametrize(
    ("definition", "parts"),
    [
        ({"image": IMAGE, "pod_id": "web1"}, ["body.pod_definition.pod_id"]),
        ({"image": IMAGE, "status_requested": "ON"}, ["body.pod_definition.status_requested"]),
        ({"compute_queue": "teaching"}, ["body.pod_definition.compute_queue"]),
        ({"template": "none"}, ["there is no template none"]),
        ({"networking": {"default": {"port": 80, "tapis_ui_uri": "/a"}}}, ["tapis_ui_uri"]),
        ({"template": "server", "networking": {"other": {"port": 8001}}}, ["same port"]),
    ],
)
def test_definitions_that_cannot_be(server: User, definition: dict[str, Any], parts: list[str]) -> None:
    body = {"pod_definition": definition, "commit_message": ""}
    assert_refused(server("POST", "/templates/server/tags", body), 400, *parts)


def test_template_and_pod_that_do_not_fit(server: User) -> None:
    body = {"pod_id": "web1", "template": "server", "networking": {"other": {"port": 8001}}}
    assert_refused(server("POST", "", body), 400, "template server:latest@", "same port")
    body = {"pod_id": "web1", "template": "server", "resources": {"mem_request": 2048}}
    assert_refused(server("POST", "", body), 400, "mem_request 2048 is more than mem_limit 1024")
    add(server, "server", {"command": ["run"]}, "empty")
    assert_refused(server("POST", "", {"pod_id": "web1", "template": "server:empty"}), 400, "names no image")


def test_permissions(server: User, user: Callable[..., User]) -> None:
    bob, eve = user("bob", "research"), user("eve", "teaching")
    assert server("GET", "/templates/server/permissions").json()["result"] == {"permissions": ["alice:ADMIN"]}
    body = {"pod_id": "web1", "template": "server"}
    for other in (bob, eve):
        assert_refused(other("POST", "", body), 400, "no template server")
        assert_refused(other("GET", "/templates/server/tags"), 404)
        assert [template["template_id"] for template in other("GET", "/templates").json()["result"]] == ["web"]
        assert "server" not in other("GET", "/templates/tags").json()["result"]
        assert_refused(other("POST", "/templates", {"template_id": "server"}), 409, "in use")
    for name in ("bob", "eve"):
        assert server("POST", "/templates/server/permissions", {"user": name, "level": "READ"}).status_code == 200
    # of another tenant: no permission helps
    assert_refused(eve("POST", "", body), 400, "no template server")
    assert bob("POST", "", body).status_code == 200
    tag = {"pod_definition": DEFINITION, "commit_message": ""}
    assert_refused(bob("POST", "/templates/server/tags", tag), 403, "you have READ")
    assert_refused(bob("PUT", "/templates/server", {"description": "bob's"}), 403)
    assert_refused(bob("DELETE", "/templates/server"), 403)
    assert_refused(bob("POST", "/web1/save_pod_as_template_tag",
                       {"template_id": "server", "commit_message": ""}), 403, "you have READ")  # fmt: skip
    assert server("PUT", "/templates/server", {"description": "ours"}).json()["result"]["metatags"] == ["web"]
    assert server("DELETE", "/templates/server/permissions/bob").status_code == 200
    assert bob.pod("web1")["command"] == ["run"]


def test_images_are_those_of_the_tenant_that_runs_it(user: Callable[..., User], alice: User) -> None:
    both, opened = user("bob", "research", "teaching"), "registry.example.org:5000/open/x"
    both("POST", "/templates", {"template_id": "wide", "compute_queue": "teaching"})
    add(both, "wide", {"image": opened})
    body = {"pod_id": "web1", "template": "wide", "compute_queue": "teaching"}
    assert_refused(both("POST", "", body), 400, "is not on the list of tenant teaching")
    assert both("POST", "", {**body, "compute_queue": "research"}).status_code == 200


def test_a_pod_becomes_a_template(alice: User, user: Callable[..., User]) -> None:
    alice.create("web1", image="", template="web", environment_variables={"MODE": "own"}, time_to_stop_instance=600)
    body = {"template_id": "saved", "commit_message": "first", "tag": "v1"}
    saved = alice("POST", "/web1/save_pod_as_template_tag", body).json()["result"]
    definition = saved["pod_definition"]
    assert (saved["template_id"], saved["tag"], saved["added_by"]) == ("saved", "v1", "alice")
    assert definition["environment_variables"] == {"MODE": "own", "PLACE": "site"}
    assert not {"template", "time_to_stop_instance", "pod_id"} & definition.keys()
    made = alice.create("web2", image="", template="saved:v1")
    assert (made["command"], made["resources"]["mem_limit"]) == (["serve"], 512)
    assert made["networking"]["default"]["url"].startswith("web2.")
    assert_refused(user("eve", "teaching")("POST", "/web1/save_pod_as_template_tag", body), 404)
    assert_refused(alice("POST", "/web1/save_pod_as_template_tag", {**body, "template_id": "web"}), 403, "site.yaml")


def test_tags_are_listed_newest_first(server: User) -> None:
    newer = add(server, "server", {"image": IMAGE, "command": ["newer"]})
    add(server, "server", {"image": IMAGE}, "v2")
    tags = server("GET", "/templates/server/tags").json()["result"]
    assert [tag["tag"] for tag in tags] == ["v2", "latest", "latest"]
    assert tags[1]["tag_timestamp"] == newer
    short = server("GET", "/templates/server/tags?full=false").json()["result"]
    assert [tag["pod_definition"] for tag in short] == [None] * 3
    latest = server("GET", "/templates/server/tags/latest").json()["result"]
    assert [tag["pod_definition"]["command"] for tag in latest] == [["newer"], ["run"]]
    assert server("GET", f"/templates/server/tags/{newer}").json()["result"] == latest[:1]
    assert_refused(server("GET", "/templates/server/tags/none"), 404, "has no tag none")
    every = server("GET", "/templates/tags").json()["result"]
    assert list(every) == ["web", "server"]
    assert every["server"] == tags


def test_templates_of_the_site_are_everyones_and_cannot_be_changed(user: Callable[..., User], alice: User) -> None:
    eve = user("eve", "teaching")
    for member in (alice, eve):
        (shown,) = member("GET", "/templates").json()["result"]
        assert (shown["template_id"], shown["tenant"], shown["description"]) == ("web", "", TEMPLATES[0]["description"])
        assert member("GET", "/templates/web").json()["result"] == shown
    (tag,) = eve("GET", "/templates/web/tags").json()["result"]
    pod = eve.create("web1", image="", template=f"web:{tag['tag_timestamp']}")
    assert (pod["command"], pod["environment_variables"]["PLACE"]) == (["serve"], "site")
    for method, path, body in (
        ("PUT", "", {}),
        ("DELETE", "", None),
        ("POST", "/tags", {"pod_definition": {"image": IMAGE}, "commit_message": ""}),
    ):
        assert_refused(alice(method, f"/templates/web{path}", body), 403, "site.yaml")
    assert_refused(alice("POST", "/templates", {"template_id": "web"}), 409)


@pytest.mark.parametrize("name", ["tags", "a", "Server", "a b", "a/b", "server\n"])
def test_names_that_cannot_be(alice: User, name: str) -> None:
    assert_refused(alice("POST", "/templates", {"template_id": name}), 400, "body.template_id")


def test_methods_of_a_path_are_not_those_of_a_pods_path(alice: User) -> None:
    assert alice("OPTIONS", "/templates").headers["Allow"] == "GET, POST"
    assert alice("OPTIONS", "/web1").headers["Allow"] == "DELETE, GET, PUT"


def test_a_pod_of_an_earlier_release_has_no_template(
    alice: User, postgresql: PostgreSQL, environment: dict[str, str]
) -> None:
    created = alice.create("web1", status_requested="OFF", description="first")
    earlier = "UPDATE pods SET spec = spec - 'template', overrides = '{}'"
    postgresql.sql(earlier, environment["PODS_DATABASE_NAME"])
    assert alice.pod("web1") == created
    assert alice("PUT", "/web1", {"description": "first"}).json()["message"] == "Pod unchanged."
    assert alice("POST", "/web1/start").status_code == 200
