"""Pages at a name of their own: login, sessions, forms, errors, logout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from strata_bench.login_issuer import LoginIssuer, Window, running_login_issuer
from strata_bench.service_processes import Service, running
from strata_bench.services import free_port, service_python

from .conftest import CODE

NAME = "notes.example.org"
APP = f"https://{NAME}"
SECRET = "s3cret of the & client"
SESSION = "__Host-strata-session"
USER = {"sub": "1", "preferred_username": "ada", "groups": ["/tenants/hep"]}
LOGOUT = "https://login.example.org/logout"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoginIssuer, Service]]:
    """The issuer and the service."""
    directory: Path = tmp_path_factory.mktemp("web")
    port = free_port()
    with running_login_issuer(LoginIssuer("example", "notes", SECRET, f"{APP}/.login/callback")) as issuer:
        issuer.user = dict(USER)
        settings = {
            **CODE,
            **issuer.login_settings("EXAMPLE", directory),
            "EXAMPLE_LOGOUT_URL": LOGOUT,
            "EXAMPLE_FRONT_PAGE_URL": "https://example.org",
            "EXAMPLE_WEB_URL": APP,
            "EXAMPLE_BIND_PORT": str(port),
            "EXAMPLE_METRICS_PORT": str(free_port()),
        }
        with running(service_python("http"), ["-m", "example.web"], settings, port, directory) as service:
            yield issuer, service


@pytest.fixture
def service(started: tuple[LoginIssuer, Service]) -> Service:
    """The service."""
    return started[1]


@pytest.fixture
def window(service: Service) -> Window:
    """A browser without cookies."""

    def route(url: str) -> tuple[str, dict[str, str]]:
        return (url.replace(APP, service.url), {"Host": NAME}) if url.startswith(APP) else (url, {})

    return Window(route)


def test_a_page_opens_after_a_login_where_it_was_asked_for(window: Window) -> None:
    url, answer = window.open(f"{APP}/notes?a=b&c=%2F")
    assert url == f"{APP}/notes?a=b&c=%2F"
    assert "<h1>Notes of ada</h1>" in answer.text
    assert '<a href="/notes" aria-current="page">All</a>' in answer.text
    assert '<a href="https://example.org/">All services</a>' in answer.text
    assert window.cookies[NAME].keys() == {SESSION}
    assert answer.headers["Cache-Control"] == "no-store"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_nothing_of_the_pages_is_at_the_names_of_the_api(service: Service, window: Window) -> None:
    window.open(f"{APP}/")
    cookie = f"{SESSION}={window.cookies[NAME][SESSION]}"
    for path in ("/", "/notes", "/.login/callback", "/style.css"):
        for host in ("api.example.org", f"x.{NAME}", f"{NAME}.evil.org"):
            answer = requests.get(service.url + path, headers={"Host": host, "Cookie": cookie}, timeout=60)
            assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json"), host
    # nor of the API at that of the pages, however it is written
    for host in (NAME, NAME.upper(), f"{NAME}.", f"{NAME}:443"):
        for path in ("/v1/notes", "/v1/openapi.json"):
            answer = requests.get(service.url + path, headers={"Host": host, "Cookie": cookie}, timeout=60)
            assert (answer.status_code, "text/html" in answer.headers["Content-Type"]) == (404, True), host
    assert window.send(f"{APP}/healthz").json() == {"status": "ok"}


def test_a_form_of_a_page_changes_something_once(window: Window, service: Service) -> None:
    window.open(f"{APP}/")
    answer = window.send(f"{APP}/notes", {"text": "<b>&"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/notes")
    assert "<li>ada: &lt;b&gt;&amp;</li>" in window.send(f"{APP}/notes").text
    assert service.logged(event="audit", action="POST /notes", outcome="success")["username"] == "ada"
    refused = window.send(f"{APP}/notes", {"text": "x" * 21})
    assert refused.status_code == 422
    assert "<li>body.text: String should have at most 20 characters</li>" in refused.text
    assert "x" * 21 not in window.send(f"{APP}/notes").text


@pytest.mark.parametrize(
    "origin", ["https://web.notes.example.org", "https://example.org", "http://notes.example.org", "null", ""]
)
def test_forms_of_other_sites_change_nothing(window: Window, origin: str) -> None:
    window.open(f"{APP}/")
    answer = window.send(f"{APP}/notes", {"text": "forged"}, Origin=origin)
    assert answer.status_code == 403
    assert "forged" not in window.send(f"{APP}/notes").text
    assert window.send(f"{APP}/.logout", {}, Origin=origin).status_code == 403


def test_without_a_session_a_form_is_refused_and_a_script_is_not_led_away(window: Window) -> None:
    answer = window.send(f"{APP}/notes", {"text": "late"})
    assert answer.status_code == 401
    assert "nothing was changed" in answer.text
    assert window.send(f"{APP}/notes", Sec_Fetch_Mode="cors").status_code == 401


def test_errors_are_pages_without_details(window: Window, service: Service) -> None:
    missing = window.send(f"{APP}/nothing")
    assert (missing.status_code, "<h1>Not Found</h1>" in missing.text) == (404, True)
    window.open(f"{APP}/")
    broken = window.send(f"{APP}/broken")
    assert (broken.status_code, "<h1>Internal Server Error</h1>" in broken.text) == (500, True)
    assert "secret detail" not in broken.text
    assert "secret detail" in service.log


def test_a_logout_ends_the_session_here_and_at_the_issuer(window: Window) -> None:
    window.open(f"{APP}/")
    answer = window.send(f"{APP}/.logout", {})
    target, _, query = answer.headers["Location"].partition("?")
    assert (answer.status_code, target) == (303, LOGOUT)
    assert parse_qs(query) == {"client_id": ["notes"], "post_logout_redirect_uri": [f"{APP}/.logout"]}
    assert not window.cookies[NAME]
    assert "You are logged out" in window.send(f"{APP}/.logout").text
    assert urlsplit(window.send(f"{APP}/").headers["Location"]).path == "/authorize"


def test_an_issuer_that_does_not_respond_is_a_page_that_reports_it(
    window: Window, started: tuple[LoginIssuer, Service]
) -> None:
    issuer = started[0]
    url = window.follow(f"{APP}/", f"{APP}/.login/callback")
    issuer.available = False
    try:
        answer = window.send(url)
    finally:
        issuer.available = True
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert "Try again" in answer.text
