"""The login in front of a pod: what the API decides, for browsers and programs, and for attackers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from strata_bench.login_issuer import LoginIssuer, Window
from strata_bench.service_processes import Service
from strata_bench.services import PostgreSQL

from .conftest import DOMAIN, WEB_URL
from .users import IMAGE, User
from .web_users import SESSION, log_in, route

__all__ = ["log_in", "route"]
"""Fixtures."""
ENTER = "/.login"
LOGIN = {"port": 8000, "tapis_auth": True}


def host(name: str) -> str:
    """Of a pod."""
    return f"{name}.{DOMAIN}"


@pytest.fixture
def pod(alice: User) -> Callable[..., str]:
    """`pod("web1", tapis_auth_allowed_users=["bob"])`: a stopped pod of alice's with a login; its URL."""

    def of(pod_id: str, **fields: Any) -> str:
        alice.create(pod_id, networking={"default": LOGIN | fields}, status_requested="OFF")
        return f"https://{host(pod_id)}"

    return of


def ask(api: Service, name: str, **headers: str) -> requests.Response:
    """A request of a program to a pod, as Traefik asks about it."""
    sent = {"X-Forwarded-Host": host(name), "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/"}
    sent |= {key.replace("_", "-"): value for key, value in headers.items()}
    return requests.get(f"{api.url}/v3/forward-auth", headers=sent, allow_redirects=False, timeout=60)


def begin(api: Service, query: dict[str, str]) -> requests.Response:
    """Of a login at the pages' host, where a pod's host sends browsers."""
    url = f"{api.url}/.login/pod"
    return requests.get(url, query, headers={"Host": DOMAIN}, allow_redirects=False, timeout=60)


def test_a_browser_logs_in_and_comes_back_to_its_page(
    pod: Callable[..., str], log_in: Callable[..., Window], api: Service
) -> None:
    url = pod("web1", tapis_auth_response_headers={"X-User": "<<tapisusername>>", "X-Kind": "of <<tapisusername>>"})
    window = log_in("bob", "research")
    page = f"{url}/plots/1?size=2&name=a%20b"
    address, answer = window.open(page)
    assert (address, answer.status_code, answer.content) == (page, 200, b"")
    assert (answer.headers["X-User"], answer.headers["X-Kind"]) == ("bob", "of bob")
    assert window.cookies[host("web1")].keys() == {SESSION}, "one cookie, for one host"
    assert not window.cookies.get(DOMAIN), "none is left at the pages' host"

    answer = window.send(page, Cookie=f"theirs=1; {SESSION}={window.cookies[host('web1')][SESSION]}; more=2")
    assert answer.headers["Cookie"] == "theirs=1; more=2"
    basic = window.send(page, Authorization="Basic YTpi")
    assert (basic.status_code, basic.headers["Authorization"]) == (200, "Basic YTpi")
    assert api.logged(path="/v3/forward-auth", status=200)["subject"] == "id-bob"
    assert window.cookies[host("web1")][SESSION] not in api.log


def test_a_login_ends_at_the_path_that_the_owner_has_chosen(
    pod: Callable[..., str], log_in: Callable[..., Window]
) -> None:
    url = pod("web1", tapis_auth_return_path="/lab?reset")
    assert log_in("bob", "research").open(f"{url}/else")[0] == f"{url}/lab?reset"


def test_whoever_is_not_on_the_list_is_refused_and_changes_hold_at_once(
    pod: Callable[..., str], log_in: Callable[..., Window], alice: User
) -> None:
    url = pod("web1", tapis_auth_allowed_users=["bob", "carl"])
    bob = log_in("bob", "research")
    assert bob.open(url)[1].status_code == 200
    dora = log_in("dora", "research")
    refused = dora.open(url)[1]
    assert (refused.status_code, "dora is not among" in refused.text) == (403, True)
    assert "text/html" in refused.headers["Content-Type"]
    carl = log_in("carl", "teaching")
    assert carl.open(url)[1].status_code == 403, "on the list, and no member of the pod's tenant"

    entry = LOGIN | {"tapis_auth_allowed_users": ["dora"]}
    assert alice("PUT", "/web1", {"networking": {"default": entry}}).status_code == 200
    assert bob.send(url).status_code == 403
    assert dora.send(url).status_code == 200


def test_who_left_the_tenant_is_refused_at_the_next_login(
    pod: Callable[..., str], log_in: Callable[..., Window], issuer: LoginIssuer
) -> None:
    url = pod("web1")
    issuer_user = {"sub": "id-bob", "preferred_username": "bob", "groups": ["/tenants/research/admins"]}
    window = log_in("bob")
    issuer.user = issuer_user
    assert window.open(url)[1].status_code == 403

    # the session of a member ends with the member's token
    def opens(window: Window) -> bool:
        try:
            return window.open(url)[1].status_code == 200
        except AssertionError:  # redirects do not end where sessions have ended before they are used
            return False

    for seconds in (2, 15, 60):  # a slow machine needs a longer one
        window = log_in("bob", "research")
        issuer.changes = {"exp": int(time.time()) + seconds}
        if opens(window):
            break
    else:
        pytest.fail("no session of up to 60 s opened the page")
    kept = window.cookies[host("web1")][SESSION]
    while time.time() < issuer.changes["exp"] + 0.1:
        time.sleep(0.2)
    window.cookies.clear()
    assert window.send(url, Cookie=f"{SESSION}={kept}").status_code == 303


def test_a_session_opens_one_pod_alone(pod: Callable[..., str], log_in: Callable[..., Window], alice: User) -> None:
    one, two = pod("web1"), pod("web2")
    window = log_in("bob", "research")
    window.open(one)
    kept = window.cookies[host("web1")][SESSION]
    for cookie in (kept, f"{kept[:-4]}AAA=", kept[:-3], "", "x" * 200):
        assert window.send(two, Cookie=f"{SESSION}={cookie}").status_code == 303
    assert window.send(one, Cookie=f"{SESSION}={kept[1:]}").status_code == 303
    entries = {"default": LOGIN, "other": LOGIN | {"port": 8001}}
    alice.create("web3", networking=entries, status_requested="OFF")
    window.open(f"https://{host('web3')}")
    kept = window.cookies[host("web3")][SESSION]
    assert window.send(f"https://{host('web3-other')}", Cookie=f"{SESSION}={kept}").status_code == 303
    assert requests.get(alice.url, headers={"Cookie": f"{SESSION}={kept}"}, timeout=60).status_code == 401


def test_a_code_is_for_one_host_one_browser_and_a_minute(
    pod: Callable[..., str], log_in: Callable[..., Window]
) -> None:
    one, two = pod("web1"), pod("web2")
    window = log_in("eve", "research")
    enter = window.follow(one, f"{one}{ENTER}")
    victim = Window(window.route)
    assert victim.send(enter).status_code == 400, "a link to log somebody in as eve"
    victim.follow(one, f"{one}{ENTER}")
    assert victim.send(enter).status_code == 400, "it does not fit the victim's own login"
    assert window.send(enter.replace(one, two)).status_code == 400
    code = parse_qs(urlsplit(enter).query)["code"][0]
    altered = "B" if code[40] == "A" else "A"
    for other in (code[:-5], f"A{code}", "", f"{code[:40]}{altered}{code[41:]}"):
        assert window.send(f"{one}{ENTER}?code={other}").status_code == 400
    state = next(value for name, value in window.cookies[host("web1")].items() if "state" in name)
    assert window.send(f"{one}{ENTER}?code={state}").status_code == 400, "of another purpose"
    assert window.send(f"{one}/", Cookie=f"{SESSION}={code}").status_code == 303, "of another purpose"
    assert window.send(enter).status_code == 303
    assert window.send(enter).status_code == 400, "its cookie has gone"


def test_a_state_that_is_not_the_browsers_begins_no_session(
    pod: Callable[..., str], log_in: Callable[..., Window]
) -> None:
    url = pod("web1")
    window = log_in("bob", "research")
    back = window.follow(url, f"{WEB_URL}/.login/callback")
    assert Window(window.route).send(back).status_code == 400
    forged = back.replace("state=", "state=x")
    assert (window.send(forged).status_code, "Set-Cookie" in window.send(forged).headers) == (400, False)


@pytest.mark.parametrize(
    "target",
    ["//evil.example/", "/\\evil.example", "https://evil.example/", "@evil.example/", ".evil.example/", "/a//b", "*"],
)
def test_a_login_never_leads_to_another_host(
    pod: Callable[..., str], log_in: Callable[..., Window], target: str
) -> None:
    url = pod("web1")
    window = log_in("bob", "research")
    first = window.send(url, X_Forwarded_Uri=target)
    enter = window.follow(first.headers["Location"], f"{url}{ENTER}")
    location = urlsplit(window.send(enter).headers["Location"])
    assert (location.scheme, location.netloc) == ("https", host("web1"))


@pytest.mark.parametrize(
    "name",
    ["evil.example", f"evil.example/.{DOMAIN}", f"none.{DOMAIN}", f"evil@web1.{DOMAIN}", f"web1.{DOMAIN}.evil.example",
     f"web1-other.{DOMAIN}", f"open.{DOMAIN}", "api.lab.strata.test", "", f"web1.{DOMAIN}\\@evil.example"],
)  # fmt: skip
def test_logins_are_for_pods_with_a_login_only(pod: Callable[..., str], alice: User, api: Service, name: str) -> None:
    pod("web1")
    alice.create("open", networking={"default": {"port": 80}}, status_requested="OFF")
    query = {"host": name, "state": "a" * 22}
    assert begin(api, query).status_code == 404
    assert ask(api, "x", X_Forwarded_Host=name).status_code == 404
    for state in ("short", "a" * 65, "a;b" * 8, "a\r\n" * 8):
        query = {"host": host("web1"), "state": state}
        assert begin(api, query).status_code == 400


def test_programs_show_a_token_that_the_pod_never_gets(
    pod: Callable[..., str], user: Callable[..., User], alice: User, api: Service, issuer: LoginIssuer
) -> None:
    pod("web1", tapis_auth_allowed_users=["bob"], tapis_auth_response_headers={"X-User": "<<tapisusername>>"})
    bob, eve = user("bob", "research").token, user("eve", "research").token
    for headers in ({"X_Tapis_Token": bob}, {"Authorization": f"Bearer {bob}"}):
        answer = ask(api, "web1", **headers)
        assert (answer.status_code, answer.headers["X-User"]) == (200, "bob")
        assert not {"authorization", "x-tapis-token", "cookie"} & {name.lower() for name in answer.headers}
    assert ask(api, "web1", X_Tapis_Token=eve).status_code == 403
    assert ask(api, "web1", X_Tapis_Token=user("bob", "teaching").token).status_code == 403
    assert ask(api, "web1", X_Tapis_Token=alice.token).status_code == 403, "the owner's list is the owner's too"
    for wrong in ("rubbish", issuer.token(aud="ml-hub"), issuer.token(exp=1)):
        assert ask(api, "web1", X_Tapis_Token=wrong, Accept="text/html").status_code == 401
    for headers in ({}, {"Accept": "application/json"}, {"Accept": "text/html", "X_Forwarded_Method": "POST"},
                    {"Accept": "text/html", "Sec_Fetch_Mode": "cors"}):  # fmt: skip
        answer = ask(api, "web1", **headers)
        assert (answer.status_code, "Set-Cookie" in answer.headers) == (401, False)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


FROM_OUTSIDE: list[dict[str, str]] = [
    {"Origin": f"https://evil.{DOMAIN}"},
    {"Origin": "null"},
    {"Origin": f"https://{DOMAIN}"},
    {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
    {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    {"Sec_Fetch_Site": "cross-site", "X_Forwarded_Method": "POST"},
    {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "websocket", "Origin": f"https://evil.{DOMAIN}"},
]


@pytest.mark.parametrize("headers", FROM_OUTSIDE)
def test_pages_of_other_hosts_cannot_use_a_session(
    pod: Callable[..., str], log_in: Callable[..., Window], headers: dict[str, str]
) -> None:
    url = pod("web1")
    window = log_in("bob", "research")
    window.open(url)
    assert window.send(url, None, **headers).status_code == 403
    assert window.send(url, Origin=url, Sec_Fetch_Site="same-origin", X_Forwarded_Method="POST").status_code == 200
    assert window.send(url, Sec_Fetch_Site="cross-site").status_code == 200, "a link"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("bob@example.org", "bob@example.org"), ("bob\r\nX-Admin: 1", "bob%0D%0AX-Admin%3A%201"), ("zoë", "zo%C3%AB")],
)
def test_names_cannot_make_headers(
    pod: Callable[..., str], log_in: Callable[..., Window], name: str, shown: str
) -> None:
    url = pod("web1", tapis_auth_response_headers={"X-User": "<<tapisusername>>"})
    answer = log_in(name, "research").open(url)[1]
    assert (answer.status_code, answer.headers["X-User"]) == (200, shown)
    assert "X-Admin" not in answer.headers


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"protocol": "tcp"}, "tapis_auth is for protocol http"),
        ({"protocol": "local_only"}, "tapis_auth is for protocol http"),
        ({"tapis_auth": False, "tapis_auth_allowed_users": ["bob"]}, "has no effect without tapis_auth: true"),
        ({"tapis_auth_allowed_users": []}, "tapis_auth_allowed_users"),
        ({"tapis_auth_allowed_users": ["a b"]}, "tapis_auth_allowed_users"),
        ({"tapis_auth_response_headers": {"Cookie": "a"}}, "choose a name such as X-User"),
        ({"tapis_auth_response_headers": {"content-length": "1"}}, "choose a name such as X-User"),
        ({"tapis_auth_response_headers": {"X-Forwarded-For": "1"}}, "choose a name such as X-User"),
        ({"tapis_auth_response_headers": {"X User": "1"}}, "tapis_auth_response_headers"),
        ({"tapis_auth_response_headers": {"X-User": "a\r\nb"}}, "tapis_auth_response_headers"),
        ({"tapis_auth_response_headers": {"X-User": "<<tapistoken>>"}}, "<<tapisusername>> is the only one"),
        ({"tapis_auth_response_headers": {"X-User": "1", "x-user": "2"}}, "upper and lower case"),
        ({"tapis_auth_return_path": "//evil.example"}, "tapis_auth_return_path"),
        ({"tapis_auth_return_path": "/\\evil.example"}, "tapis_auth_return_path"),
        ({"tapis_auth_return_path": "https://evil.example"}, "tapis_auth_return_path"),
        ({"tapis_auth_return_path": "/a b"}, "tapis_auth_return_path"),
    ],
)
def test_fields_that_cannot_be_are_named(alice: User, fields: dict[str, Any], text: str) -> None:
    answer = alice("POST", "", {"pod_id": "web1", "image": IMAGE, "networking": {"default": LOGIN | fields}})
    assert answer.status_code == 400
    assert text in answer.text


def test_a_run_keeps_its_login_until_the_next(
    pod: Callable[..., str], log_in: Callable[..., Window], alice: User, postgresql: PostgreSQL,
    environment: dict[str, str],
) -> None:  # fmt: skip
    url = pod("web1", tapis_auth_allowed_users=["bob"])
    postgresql.sql("UPDATE pods SET run_spec = spec", environment["PODS_DATABASE_NAME"])
    assert alice("PUT", "/web1", {"networking": {"default": {"port": 8000}}}).status_code == 200
    assert log_in("bob", "research").open(url)[1].status_code == 200
    assert log_in("carl", "research").open(url)[1].status_code == 403
    assert alice("DELETE", "/web1").status_code == 200
    assert log_in("bob", "research").send(url).status_code == 404


def test_a_session_is_not_for_a_later_pod_of_the_same_name(
    pod: Callable[..., str], log_in: Callable[..., Window], postgresql: PostgreSQL, environment: dict[str, str]
) -> None:
    window = log_in("bob", "research")
    assert window.open(pod("web1"))[1].status_code == 200
    postgresql.sql("DELETE FROM pods", environment["PODS_DATABASE_NAME"])
    assert window.send(pod("web1")).status_code == 303
