"""The pages for personal access tokens, in a browser without a screen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from strata_bench.service_processes import Service

from .calls import password, post
from .conftest import WEB, Browser, Login, StartAuthenticator, browser_at, shown_token

Sql = Callable[[str], str]
MANY = (
    "INSERT INTO personal_access_tokens (id, username, subject, name, expires, sealed) "
    "SELECT 'many' || n, 'ada', 'id-ada', 'name ' || n, now() + interval '1 day', '' FROM generate_series(1, {}) n"
)


def names(browser: Browser) -> list[str]:
    """Of the list."""
    return re.findall(r'aria-label="Revoke ([^"]+)"', browser.open(f"{WEB}/")[1].text)


def test_a_token_is_shown_once_listed_and_revoked(authenticator: Service, login: Login, browser: Browser) -> None:
    assert "You have no tokens." in browser.open(f"{WEB}/")[1].text
    back = browser.begin_token(" <b>ci & co</b> ", 7)
    page = browser.send(back)
    token = shown_token(page.text)
    assert page.status_code == 201
    assert "<h1>Token “&lt;b&gt;ci &amp; co&lt;/b&gt;” created</h1>" in page.text
    assert f'Tapis("{authenticator.url}", "ada", os.environ["STRATA_PASSWORD"])' in page.text.replace("&#34;", '"')
    assert browser.send(back).status_code == 400, "a reload creates no other token"
    shown = browser.open(f"{WEB}/")[1].text
    assert token not in shown
    assert f"strata_pat_{token[11:23]}_…" in shown
    assert names(browser) == ["&lt;b&gt;ci &amp; co&lt;/b&gt;"]
    assert post(authenticator, password("ada", token)).status_code == 201
    other = browser_at(authenticator)
    login.user("bob")
    assert names(other) == []
    revoke = f"{WEB}/tokens/{token[11:23]}/revoke"
    assert other.send(revoke, {}).status_code == 404
    assert browser.send(revoke, {}).headers["Location"] == "/"
    assert names(browser) == []
    assert post(authenticator, password("ada", token)).status_code == 401


@pytest.mark.parametrize(
    ("name", "days", "problem"),
    [
        ("", "30", "printable characters"),
        ("x" * 65, "30", "printable characters"),
        ("a\0b", "30", "printable characters"),
        ("ci", "31", "lifetimes"),
        ("ci", "", "lifetimes"),
        ("taken", "30", "choose another name"),
    ],
)
def test_a_form_with_an_error_is_shown_again(browser: Browser, sql: Sql, name: str, days: str, problem: str) -> None:
    browser.create_token("taken")
    answer = browser.send(f"{WEB}/tokens", {"name": name, "days": days})
    assert answer.status_code == 400
    (alert,) = re.findall(r'role="alert">([^<]+)<', answer.text)
    assert problem in alert
    if name.isprintable():
        assert f'value="{name}"' in answer.text
    assert sql("SELECT count(*) FROM personal_access_tokens") == "1"


def test_a_user_has_20_tokens_at_most(authenticator: Service, browser: Browser, sql: Sql) -> None:
    sql(MANY.format(19))
    other = browser_at(authenticator)
    first, second = browser.begin_token("first"), other.begin_token("second")
    assert browser.send(first).status_code == 201
    refused = other.send(second)
    assert (refused.status_code, "No token was created" in refused.text) == (409, True)
    again = browser.send(f"{WEB}/tokens", {"name": "third", "days": "30"})
    assert (again.status_code, "revoke one first" in again.text) == (400, True)
    sql("UPDATE personal_access_tokens SET expires = now() WHERE name = 'name 1'")
    assert browser.create_token("third"), "an expired one does not count"


def test_the_login_of_another_user_creates_nothing(browser: Browser, login: Login, sql: Sql) -> None:
    browser.open(f"{WEB}/")
    login.user("bob")
    answer = browser.send(browser.begin_token("ci"))
    assert (answer.status_code, "logged in as bob" in answer.text) == (403, True)
    assert sql("SELECT count(*) FROM personal_access_tokens") == "0"


def test_an_issuer_without_lasting_logins_creates_nothing(browser: Browser, login: Login, sql: Sql) -> None:
    login.issuer.offers_offline = False
    answer = browser.send(browser.begin_token("ci"))
    assert (answer.status_code, "tell the operators" in answer.text) == (503, True)
    assert sql("SELECT count(*) FROM personal_access_tokens") == "0"


@pytest.mark.parametrize(("days", "expected"), [("60", ["7", "30"]), ("3", ["3"])])
def test_the_site_limits_lifetimes(
    start_authenticator: StartAuthenticator, login: Login, sql: Sql, days: str, expected: list[str]
) -> None:
    with start_authenticator(AUTHENTICATOR_PERSONAL_ACCESS_TOKEN_DAYS=days) as service:
        browser = browser_at(service)
        assert re.findall(r'<option value="(\d+)"', browser.open(f"{WEB}/")[1].text) == expected
        assert browser.send(f"{WEB}/tokens", {"name": "ci", "days": "90"}).status_code == 400
        assert browser.create_token("ci", int(expected[0]))
        seconds = sql("SELECT extract(epoch FROM expires - created) FROM personal_access_tokens")
        assert float(seconds) == int(expected[0]) * 86_400
