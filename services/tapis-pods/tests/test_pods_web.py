"""The pages: what users do with pods there, what the API refuses, and what attackers cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import requests

from strata_bench.login_issuer import Window
from strata_bench.service_processes import Service

from .conftest import DOMAIN, LOGOUT_URL, WEB_URL, Change
from .users import IMAGE, User
from .web_users import SESSION, LogIn, log_in, route

__all__ = ["log_in", "route"]
"""Fixtures."""
FIELDS = {"name": "web1", "description": "", "variables": "", "hours": "12"}
MARKUP = '"><script>alert(1)</script>'


@pytest.fixture
def window(alice: User, log_in: LogIn) -> Window:
    """Alice's browser, at the pages."""
    assert alice
    return logged_in(log_in("alice", "research"))


def logged_in(window: Window) -> Window:
    """With a session at the pages."""
    assert window.open(f"{WEB_URL}/")[1].status_code == 200
    return window


def text_of(answer: requests.Response) -> str:
    """Words of a page, without tags."""
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", answer.text))


def post(window: Window, path: str, form: dict[str, str] | None = None, **headers: str) -> requests.Response:
    """A form of the pages."""
    return window.send(f"{WEB_URL}{path}", form or {}, **headers)


def test_a_pod_is_created_from_a_template_stopped_shared_and_deleted(
    window: Window, alice: User, user: Callable[..., User], api: Service, log_in: LogIn, change: Change
) -> None:
    assert "You have no pods yet" in window.send(f"{WEB_URL}/").text
    cards = window.send(f"{WEB_URL}/new").text
    assert 'href="/new/web"' in cards
    assert "a web server" in cards
    form = window.send(f"{WEB_URL}/new/web").text
    assert "The template sets MODE, PLACE." in form
    assert 'name="project"' not in form, "she has one"
    assert 'name="gpus"' not in form, "her project has none"

    sent = {**FIELDS, "description": "plots", "variables": "MODE=slow\r\n\r\nURL=a=b", "hours": "0.5", "login": "yes"}
    created = post(window, "/new/web", sent)
    assert (created.status_code, created.headers["Location"]) == (303, "/pods/web1")
    pod = alice.pod("web1")
    assert pod["environment_variables"] == {"MODE": "slow", "PLACE": "site", "URL": "a=b"}
    assert (pod["description"], pod["time_to_stop_default"], pod["compute_queue"]) == ("plots", 1800, "research")
    assert (pod["networking"]["default"]["tapis_auth"], pod["networking"]["default"]["port"]) == (True, 8000)
    record = api.logged(event="audit", action="pods.create", object="pods/web1")
    assert (record["username"], record["tenant"], record["outcome"]) == ("alice", "research", "success")

    page = window.send(f"{WEB_URL}/pods/web1")
    assert "Waiting to start" in text_of(page)
    assert f'href="https://web1.{DOMAIN}/"' not in page.text, "it does not run yet"
    change("web1", "status = 'AVAILABLE'")
    for path in ("/", "/pods/web1"):
        assert f'href="https://web1.{DOMAIN}/"' in window.send(WEB_URL + path).text
    assert "Running AVAILABLE" in text_of(window.send(f"{WEB_URL}/pods/web1"))

    shared = post(window, "/pods/web1/sharing", {"user": "bob", "level": "READ"})
    assert shared.headers["Location"] == "/pods/web1/sharing"
    bob = logged_in(log_in("bob", "research"))
    assert 'href="/pods/web1"' in bob.send(f"{WEB_URL}/").text
    assert "/pods/web1/stop" not in bob.send(f"{WEB_URL}/pods/web1").text, "no buttons that he may not use"
    for path in ("/stop", "/delete", "/restart", "/sharing/remove"):
        assert post(bob, f"/pods/web1{path}", {"user": "alice"}).status_code == 403
    assert bob.send(f"{WEB_URL}/pods/web1/sharing").status_code == 403
    assert post(window, "/pods/web1/sharing/remove", {"user": "bob"}).status_code == 303
    assert bob.send(f"{WEB_URL}/pods/web1").status_code == 404

    assert post(window, "/pods/web1/stop").headers["Location"] == "/pods/web1"
    assert alice.pod("web1")["status_requested"] == "OFF"
    assert "Stopping" in text_of(window.send(f"{WEB_URL}/pods/web1"))
    change("web1", "status = 'STOPPED'")
    assert 'action="/pods/web1/start"' in window.send(f"{WEB_URL}/pods/web1").text
    assert post(window, "/pods/web1/start").status_code == 303
    again = post(window, "/pods/web1/start")
    assert (again.status_code, "only a STOPPED pod can be started" in again.text) == (409, True)

    assert "Delete web1?" in window.send(f"{WEB_URL}/pods/web1/delete").text
    assert alice("GET", "/web1").status_code == 200, "a question changes nothing"
    assert post(window, "/pods/web1/delete").headers["Location"] == "/"
    assert alice("GET", "/web1").status_code == 404


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "Web_1"}, "Name: 3 to 58 lower-case letters and digits"),
        ({"name": "jupyter"}, "Name: jupyter is reserved"),
        ({"name": "taken"}, "Name: taken is in use"),
        ({"variables": "A=1\nsecret word"}, "Variables, line 2: write NAME=value"),
        ({"variables": "A=1\nA=2"}, "Variables, line 2: duplicate A"),
        ({"variables": "1A=b"}, "Variables 1A"),
        ({"hours": "0.01"}, "Hours: must be -1 (never) or at least 300 seconds"),
        ({"hours": "soon"}, "Hours: write a number"),
        ({"hours": "1e999"}, "Hours: write a number"),
        ({"gpus": "1"}, "GPUs: 1 is more than the quota of tenant research allows: 0"),
        ({"gpus": "x"}, "GPUs: "),
        ({"project": "teaching"}, "teaching is none of your tenants"),
        ({"description": "zo\u00eb"}, "Description: must be ASCII"),
    ],
)
def test_a_form_that_is_refused_comes_back_with_what_was_written(
    window: Window, alice: User, fields: dict[str, str], text: str
) -> None:
    alice.create("taken", status_requested="OFF")
    sent = {**FIELDS, "description": "a & b", **fields}
    answer = post(window, "/new/web", sent)
    assert answer.status_code in (400, 409)
    assert text in answer.text
    assert 'role="alert"' in answer.text
    assert f'value="{sent["description"].replace("&", "&amp;")}"' in answer.text
    assert f'value="{sent["name"]}"' in answer.text
    assert alice("GET", "").json()["metadata"]["count"] == 1


def test_members_of_several_projects_choose_one_and_its_gpus(alice: User, log_in: LogIn) -> None:
    window = logged_in(log_in("alice", "research", "teaching"))
    form = window.send(f"{WEB_URL}/new/web").text
    assert "<option>teaching</option>" in form
    assert 'max="2"' in form
    sent = {**FIELDS, "project": "teaching", "gpus": "2", "hours": "0"}
    assert post(window, "/new/web", sent).status_code == 303
    row = text_of(window.send(f"{WEB_URL}/pods/web1"))
    assert "2 GPUs" in row
    assert "Stops at never" in row
    assert alice("GET", "/web1").status_code == 404, "whose token knows research alone"


def test_who_is_in_no_project_reads_why_there_is_nothing(clean: None, log_in: LogIn) -> None:
    window = logged_in(log_in("zoe"))
    answer = window.send(f"{WEB_URL}/new")
    assert "You are a member of no project" in answer.text
    assert "/new/web" not in answer.text


def test_a_template_of_another_user_is_used_once_it_is_shared(
    window: Window, user: Callable[..., User], alice: User
) -> None:
    bob = user("bob", "research")
    assert bob("POST", "/templates", {"template_id": "mine", "description": "bob's"}).status_code == 200
    definition = {"image": IMAGE, "networking": {"default": {"protocol": "postgres", "port": 5432}}}
    tag = {"pod_definition": definition, "commit_message": "first", "tag": "v1"}
    assert bob("POST", "/templates/mine/tags", tag).status_code == 200
    assert window.send(f"{WEB_URL}/new/mine:v1").status_code == 404
    assert "mine" not in window.send(f"{WEB_URL}/new").text
    assert bob("POST", "/templates/mine/permissions", {"user": "alice", "level": "READ"}).status_code == 200
    assert 'href="/new/mine:v1"' in window.send(f"{WEB_URL}/new").text
    assert 'name="login"' not in window.send(f"{WEB_URL}/new/mine:v1").text, "it has no page"
    assert post(window, "/new/mine:v1", {**FIELDS, "name": "pg1"}).status_code == 303
    assert alice.pod("pg1")["template"].startswith("mine:v1@")
    assert f"host=pg1.{DOMAIN} port=443" in window.send(f"{WEB_URL}/pods/pg1").text


def test_the_last_admin_stays(window: Window, alice: User) -> None:
    alice.create("web1", status_requested="OFF")
    for path, form in (("sharing/remove", {}), ("sharing", {"level": "READ"})):
        answer = post(window, f"/pods/web1/{path}", {"user": "alice", **form})
        assert answer.status_code == 400
        assert "alice is its last ADMIN" in answer.text
        assert "<h1>Sharing of web1</h1>" in answer.text
    wrong = post(window, "/pods/web1/sharing", {"user": MARKUP, "level": "READ"})
    assert (wrong.status_code, MARKUP in wrong.text, "write the name" in wrong.text) == (400, False, True)
    assert post(window, "/pods/web1/sharing/remove", {"user": "a\0"}).status_code == 400
    assert alice("GET", "/web1/permissions").json()["result"]["permissions"] == ["alice:ADMIN"]


def test_nothing_that_users_and_pods_write_is_markup(window: Window, alice: User, change: Change) -> None:
    refused = post(window, "/new/web", {**FIELDS, "name": MARKUP, "variables": f"A={MARKUP}</textarea>"})
    assert refused.status_code == 400
    alice.create("web1", description=MARKUP, status_requested="OFF", environment_variables={"A": MARKUP})
    message = '{"message": "<script>alert(1)</script>"}'
    change(
        "web1", f"log = '<script>alert(1)</script>\x1b[31mred\x1b[0m', log_run = run, status_container = '{message}'"
    )
    pages = [refused, *(window.send(f"{WEB_URL}{path}") for path in ("/", "/pods/web1", "/pods/web1/log"))]
    for page in pages:
        assert "<script>alert" not in page.text
        assert "</textarea></textarea>" not in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    log = pages[-1]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;red" in log.text
    plain = window.send(f"{WEB_URL}/pods/web1/log.txt")
    assert plain.text.startswith("<script>alert(1)</script>\x1b[31m")
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert plain.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("origin", [f"https://web1.{DOMAIN}", "https://api.lab.strata.test", "null", ""])
def test_the_page_of_a_pod_cannot_send_forms(window: Window, alice: User, origin: str, api: Service) -> None:
    alice.create("web1", status_requested="OFF")
    for path, form in (
        ("/pods/web1/start", {}), ("/pods/web1/delete", {}), ("/new/web", FIELDS),
        ("/pods/web1/sharing", {"user": "eve", "level": "ADMIN"}),
    ):  # fmt: skip
        assert post(window, path, form, Origin=origin).status_code == 403
    assert alice.pod("web1")["status_requested"] == "OFF"
    assert alice("GET", "/web1/permissions").json()["result"]["permissions"] == ["alice:ADMIN"]
    assert api.logged(event="audit", action="POST /pods/{pod_id}/delete", outcome="denied")


def test_a_cookie_that_a_pod_can_set_is_not_a_session(window: Window, log_in: LogIn, alice: User) -> None:
    kept = window.cookies[DOMAIN][SESSION]
    alice.create("web1", networking={"default": {"port": 8000, "tapis_auth": True}}, status_requested="OFF")
    bob = log_in("bob", "research")
    assert bob.open(f"https://web1.{DOMAIN}/")[1].status_code == 200
    pods = bob.cookies[f"web1.{DOMAIN}"][SESSION]
    stranger = Window(window.route)
    # without the prefix, any name below the domain may set it; and a pod's session is for the pod
    for cookie in (f"strata-session={kept}", f"session={kept}", f"__Secure-strata-session={kept}", f"{SESSION}={pods}"):
        answer = stranger.send(f"{WEB_URL}/", Cookie=cookie)
        assert (answer.status_code, "/authorize?" in answer.headers["Location"]) == (303, True), cookie
        assert post(stranger, "/pods/web1/delete", Cookie=cookie).status_code == 401
    # in front of the own one, it is not mistaken for it
    assert stranger.send(f"{WEB_URL}/", Cookie=f"{SESSION}={pods}; {SESSION}={kept}").status_code == 200
    opened = stranger.send(f"https://web1.{DOMAIN}/", Cookie=f"{SESSION}={kept}")
    assert opened.status_code == 303, "and the pages' opens no pod"


@pytest.mark.parametrize(
    "path", ["", "/log", "/log.txt", "/sharing", "/delete", "/start", "/stop", "/restart", "/sharing/remove", "/other"]
)
def test_the_pod_of_another_user_is_not_there(alice: User, log_in: LogIn, path: str) -> None:
    alice.create("web1", status_requested="OFF")
    window = logged_in(log_in("eve", "research"))
    if path in ("", "/log", "/log.txt", "/sharing", "/delete"):
        assert window.send(f"{WEB_URL}/pods/web1{path}").status_code == 404
    if path not in ("", "/log", "/log.txt"):
        assert post(window, f"/pods/web1{path}", {"user": "eve", "level": "READ"}).status_code == 404
    assert "web1" not in window.send(f"{WEB_URL}/").text
    assert alice.pod("web1")["status_requested"] == "OFF"


@pytest.mark.parametrize("host", [DOMAIN, DOMAIN.upper(), f"{DOMAIN}.", f"{DOMAIN}:443"])
def test_what_only_the_ingress_controller_asks_is_not_at_the_pages_name(
    window: Window, alice: User, api: Service, host: str
) -> None:
    alice.create("web1", networking={"default": {"port": 8000, "tapis_auth": True}}, status_requested="OFF")
    sent: dict[str, Any] = {"Host": host, "X-Forwarded-Host": f"web1.{DOMAIN}", "X-Tapis-Token": alice.token}
    sent["Cookie"] = f"{SESSION}={window.cookies[DOMAIN][SESSION]}"
    for path in ("/v3/forward-auth", "/v3/status-page", "/forward-auth", "/status-page", "/v3/pods", "/v3/pods/web1"):
        answer = requests.get(api.url + path, headers=sent, allow_redirects=False, timeout=60)
        assert (answer.status_code, "There is no page" in answer.text) == (404, True), path


def test_a_logout_ends_at_the_issuer(window: Window) -> None:
    answer = post(window, "/.logout")
    assert answer.headers["Location"].startswith(f"{LOGOUT_URL}?client_id=pods-login&")
    assert not window.cookies[DOMAIN]
