"""Logins by browser at an issuer, and the sessions after them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from strata_bench.login_issuer import SESSION_KEY, LoginIssuer, Window, running_login_issuer
from strata_bench.service_processes import Service, running
from strata_bench.services import free_port, service_python

from .conftest import CODE

APP = "https://app.example.org"
CALLBACK = f"{APP}/v1/callback"
SECRET = "s3cret of the & client"
SESSION = "__Host-strata-session"
USER = {"sub": "1", "preferred_username": "ada", "groups": ["/tenants/hep", "/staff"]}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoginIssuer, Service]]:
    """The issuer and the service."""
    directory: Path = tmp_path_factory.mktemp("logins")
    port = free_port()
    with running_login_issuer(LoginIssuer("example", "example", SECRET, CALLBACK)) as issuer:
        settings = {
            **CODE,
            **issuer.login_settings("EXAMPLE", directory),
            "EXAMPLE_BIND_PORT": str(port),
            "EXAMPLE_METRICS_PORT": str(free_port()),
        }
        with running(service_python("http"), ["-m", "example.logins"], settings, port, directory) as service:
            yield issuer, service


@pytest.fixture
def issuer(started: tuple[LoginIssuer, Service]) -> Iterator[LoginIssuer]:
    """As new, before and after."""
    running = started[0]
    running.user, running.changes = dict(USER), {}
    yield running
    running.available = True


@pytest.fixture
def service(started: tuple[LoginIssuer, Service]) -> Service:
    """The service."""
    return started[1]


@pytest.fixture
def window(service: Service, issuer: LoginIssuer) -> Window:
    """A browser without cookies."""
    assert issuer
    return Window(lambda url: (url.replace(APP, service.url), {}))


def begin(window: Window) -> str:
    """The URL that the issuer sends the browser back to."""
    return window.follow(f"{APP}/v1/login?page=start", CALLBACK)


def test_a_login_begins_a_session_of_one_host(window: Window, service: Service) -> None:
    url, answer = window.open(f"{APP}/v1/login?page=start")
    assert url == f"{APP}/v1/me?page=start"
    assert answer.json() == {"username": "ada", "tenants": ["hep"], "cookies": ""}
    assert window.cookies["app.example.org"].keys() == {SESSION}, "the cookie of the login has gone"
    cookie = window.cookies["app.example.org"][SESSION]
    assert window.send(f"{APP}/v1/me?host=other.example.org").status_code == 401
    answer = window.send(f"{APP}/v1/me", Cookie=f"a=b; {SESSION}={cookie}; c=d; __Host-strata-x=1")
    assert answer.json()["cookies"] == "a=b; c=d"
    for text in (cookie, SECRET, SESSION_KEY):
        assert text not in service.log


@pytest.mark.parametrize("changed", ["first", "last", "empty", "cut", "words"])
def test_a_changed_session_is_none(window: Window, changed: str) -> None:
    window.open(f"{APP}/v1/login?page=start")
    cookie = window.cookies["app.example.org"][SESSION]
    other = {
        "first": f"h{cookie[1:]}",
        "last": f"{cookie[:-6]}AAAA{cookie[-2:]}",
        "empty": "",
        "cut": cookie[:-8],
        "words": "not/base64 ü".encode().decode("latin-1"),
    }[changed]
    assert window.send(f"{APP}/v1/me", Cookie=f"{SESSION}={other}").status_code == 401
    answer = window.send(f"{APP}/v1/me", Cookie=f"{SESSION}={other}; {SESSION}={cookie}")
    assert answer.status_code == 200, "one that a stranger has planted beside it does not end the session"


def test_a_session_is_no_longer_than_the_token(window: Window, issuer: LoginIssuer) -> None:
    # within the time that clocks may differ by, but over
    issuer.changes = {"exp": int(time.time()) - 5}
    assert window.open(f"{APP}/v1/login?page=start")[1].status_code == 401


def test_only_the_browser_that_began_a_login_ends_it(window: Window, service: Service) -> None:
    url = begin(window)
    stranger = Window(window.route)
    assert "another browser" in stranger.send(url).json()["detail"]
    begin(stranger)
    assert stranger.send(url).status_code == 400, "its own login is another"
    state = parse_qs(urlsplit(url).query)["state"][0]
    assert window.send(url.replace(state, f"{state[:-1]}-")).status_code == 400
    assert window.send(url.replace("state=", "other=")).status_code == 400
    assert window.send(f"{CALLBACK}?error=access_denied&state={state}").status_code == 400
    assert window.send(url).status_code == 303
    assert window.send(url).status_code == 400, "once"
    assert state not in service.log


def test_several_windows_log_in_at_once(window: Window) -> None:
    first, second = begin(window), begin(window)
    assert window.send(first).status_code == window.send(second).status_code == 303


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "other"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"sub": None},
    ],
)
def test_an_id_token_that_does_not_hold_is_not_a_login(
    window: Window, issuer: LoginIssuer, changes: dict[str, object]
) -> None:
    issuer.changes = changes
    answer = window.open(f"{APP}/v1/login?page=start")[1]
    assert answer.status_code == 400
    assert "Set-Cookie" not in answer.headers


def test_an_issuer_that_does_not_respond_is_503(window: Window, issuer: LoginIssuer) -> None:
    url = begin(window)
    issuer.available = False
    assert window.send(url).status_code == 503
