"""Personal access tokens at the API: logins with them, and what ends them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from strata_bench.service_processes import Service
from strata_bench.waiting import eventually

from .calls import address, get, password, post, result
from .conftest import (
    ACCOUNT,
    CLIENT,
    CLIENT_SECRET,
    LOGIN_CLIENT,
    LOGIN_SECRET,
    WEB,
    Browser,
    Login,
    StartAuthenticator,
    browser_at,
)

LIST = "/oauth2/personal-access-tokens"
REVOKE = "/oauth2/tokens/revoke"
Sql = Callable[[str], str]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def delete(service: Service, token_id: str, jwt: str) -> requests.Response:
    return requests.delete(f"{service.url}/v3{LIST}/{token_id}", headers=bearer(jwt), timeout=60)


def parts(token: str) -> tuple[str, str]:
    """Id and secret."""
    token_id, _, secret = token.removeprefix("strata_pat_").partition("_")
    return token_id, secret


def test_a_token_logs_in_in_place_of_the_password(authenticator: Service, login: Login, browser: Browser) -> None:
    jwt, token = login.user("ada"), browser.create_token("ci")
    (before,) = result(get(authenticator, LIST, **bearer(jwt)))
    assert (before["id"], before["name"], before["last_used"]) == (parts(token)[0], "ci", None)
    login.forms.clear()
    tokens = result(post(authenticator, password("Ada", token), **{"X-Request-ID": "personal"}), 201)
    assert tokens.keys() == {"access_token"}, "no refresh token: the personal one is to be used again"
    assert tokens["access_token"]["expires_in"] == 300
    (form,) = login.forms
    assert (form["grant_type"], form["client_id"]) == ("refresh_token", LOGIN_CLIENT)
    profile = result(get(authenticator, "/oauth2/userinfo", **bearer(tokens["access_token"]["access_token"])))
    assert profile["username"] == "ada"
    record = authenticator.logged(event="audit", request_id="personal")
    assert (record["action"], record["object"]) == ("tokens.create", f"personal-access-tokens/{before['id']}")
    assert (record["username"], record["outcome"]) == ("ada", "success")
    (after,) = result(get(authenticator, LIST, **bearer(jwt)))
    assert after["last_used"] > before["created"]
    refreshed = result(post(authenticator, {"grant_type": "refresh_token", "refresh_token": token}), 201)
    assert refreshed.keys() == {"access_token"}
    named = {**password("ada", token), "client_id": "unknown", "client_key": "wrong"}
    assert result(post(authenticator, named), 201), "the token needs no client"


def test_what_does_not_log_in_is_refused_in_one_text(
    authenticator: Service, login: Login, browser: Browser, sql: Sql
) -> None:
    token, expired, revoked = (browser.create_token(name) for name in ("good", "expired", "revoked"))
    token_id, secret = parts(token)
    sql(f"UPDATE personal_access_tokens SET expires = now() WHERE id = '{parts(expired)[0]}'")  # noqa: S608  # of this test
    assert result(delete(authenticator, parts(revoked)[0], login.user("ada"))) == ""
    login.forms.clear()
    wrong = [
        password("ada", f"{token[:-1]}{'x' if token[-1] != 'x' else 'y'}"),
        password("ada", f"strata_pat_{'0' * 12}_{secret}"),
        password("ada", f"strata_pat_{token_id}_"),
        password("ada", token[:-1]),
        password("bob", token),
        password("ada", expired),
        password("ada", revoked),
        {"grant_type": "refresh_token", "refresh_token": revoked},
    ]
    messages = {result(post(authenticator, body), 401) for body in wrong}
    assert len(messages) == 1, messages
    assert WEB in messages.pop()
    assert login.forms == [], "the issuer is not asked"
    assert result(post(authenticator, password("ada", token)), 201)


def test_the_issuer_decides_each_time(authenticator: Service, login: Login, browser: Browser) -> None:
    token = browser.create_token("ci")
    login.issuer.disabled.add("id-ada")
    assert "create a new one" in result(post(authenticator, password("ada", token)), 401)
    login.issuer.disabled.clear()
    assert result(post(authenticator, password("ada", token)), 201), "the account is enabled again"


@pytest.mark.parametrize("broken", [(502, {}), (200, {}), (401, {"error": "invalid_client"})])
def test_without_the_issuer_a_token_is_503(
    authenticator: Service, login: Login, browser: Browser, broken: tuple[int, Any]
) -> None:
    token = browser.create_token("ci")
    login.broken = broken
    response = post(authenticator, password("ada", token))
    assert result(response, 503)
    assert response.headers["Retry-After"]


def test_the_table_alone_opens_nothing(authenticator: Service, login: Login, browser: Browser, sql: Sql) -> None:
    first, second = browser.create_token("first"), browser.create_token("second")
    dump = sql("SELECT * FROM personal_access_tokens")
    assert parts(first)[0] in dump
    assert len(login.issuer.offline) >= 2
    for secret in (parts(first)[1], parts(second)[1], *login.issuer.offline):
        assert secret not in dump
    # nor does a token open what another one sealed
    sql(
        "UPDATE personal_access_tokens SET sealed = (SELECT sealed FROM personal_access_tokens WHERE name = 'second') "
        "WHERE name = 'first'"
    )
    assert result(post(authenticator, password("ada", first)), 401)
    assert result(post(authenticator, password("ada", second)), 201)


def test_tokens_are_listed_and_revoked_by_their_owner_only(
    authenticator: Service, login: Login, browser: Browser, sql: Sql
) -> None:
    token = browser.create_token("ci")
    token_id = parts(token)[0]
    bob, ada = login.user("bob"), login.user("ada")
    assert result(get(authenticator, LIST, **bearer(bob))) == []
    assert "no personal access token" in result(delete(authenticator, token_id, bob), 404)
    assert result(post(authenticator, password("ada", token)), 201)
    browser.create_token("expired")
    sql("UPDATE personal_access_tokens SET expires = now() WHERE name = 'expired'")
    assert [token["name"] for token in result(get(authenticator, LIST, **bearer(ada)))] == ["ci"]
    assert sql("SELECT count(*) FROM personal_access_tokens") == "1", "the expired one is deleted"
    assert result(delete(authenticator, token_id, ada)) == ""
    deleted = {"action": "personal-access-tokens.delete", "object": f"personal-access-tokens/{token_id}"}
    assert authenticator.logged(event="audit", outcome="success", **deleted)["username"] == "ada"
    assert result(delete(authenticator, token_id, ada), 404)
    assert result(get(authenticator, LIST), 401)


def test_a_jwt_creates_no_token(authenticator: Service, login: Login) -> None:
    headers = bearer(login.user("ada"))
    assert post(authenticator, {"name": "ci", "days": 365}, LIST, **headers).status_code == 405


def test_refresh_tokens_that_are_good_once_are_stored_again(
    authenticator: Service, login: Login, browser: Browser
) -> None:
    token = browser.create_token("ci")
    login.issuer.rotates = True
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: post(authenticator, password("ada", token)), range(6)))
    assert [answer.status_code for answer in answers] == [201] * 6, [answer.text for answer in answers]
    used = [form["refresh_token"] for form in login.forms if form["grant_type"] == "refresh_token"]
    assert len(set(used)) == 6, "each use has the refresh token of the one before"


def test_slow_answers_of_the_issuer_leave_connections_for_all_else(
    authenticator: Service, login: Login, browser: Browser
) -> None:
    tokens = [browser.create_token(f"job {number}") for number in range(6)]
    login.forms.clear()
    login.responds.clear()
    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(post, authenticator, password("ada", token)) for token in tokens]
        try:
            eventually(lambda: len(login.forms) == 3, 60, "as many requests as may wait for the issuer")
            assert requests.get(f"{authenticator.url}/readyz", timeout=60).status_code == 200
        finally:
            login.responds.set()
        assert [answer.result().status_code for answer in answers] == [201] * 6


def test_uses_of_one_token_are_limited(authenticator: Service, login: Login, browser: Browser) -> None:
    token = browser.create_token("loop")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: post(authenticator, password("ada", token)), range(121)))
    statuses = [answer.status_code for answer in answers]
    # far beyond the logins of one name by password
    assert (statuses.count(201), statuses.count(429)) == (120, 1)
    assert post(authenticator, password("ada", browser.create_token("other"))).status_code == 201
    assert post(authenticator, password("ada")).status_code == 201


def test_whoever_has_a_token_can_revoke_it(authenticator: Service, login: Login, browser: Browser) -> None:
    kept, first, second = (browser.create_token(name) for name in ("kept", "first", "second"))
    wrong = f"strata_pat_{parts(kept)[0]}_{parts(first)[1]}"
    for token in (wrong, first, first, "strata_pat_unknown"):
        assert result(post(authenticator, {"token": token}, REVOKE)) == "", "unknown ones are not errors"
    headers = {"X-Forwarded-For": address()}
    form = requests.post(f"{authenticator.url}/v3{REVOKE}", data={"token": second}, headers=headers, timeout=60)
    assert result(form) == ""
    assert [post(authenticator, password("ada", token)).status_code for token in (first, second, kept)] == [
        401,
        401,
        201,
    ]
    revoked = f"personal-access-tokens/{parts(second)[0]}"
    assert authenticator.logged(event="audit", action="tokens.revoke", object=revoked)["username"] == "ada"
    assert login.revoked == [], "other tokens of the same login go on"


def test_a_refresh_token_is_revoked_at_the_issuer(
    authenticator: Service, login: Login, start_authenticator: StartAuthenticator
) -> None:
    refresh = result(post(authenticator, password()), 201)["refresh_token"]["refresh_token"]
    assert result(post(authenticator, {"token": refresh, "token_type_hint": "refresh_token"}, REVOKE)) == ""
    assert login.revoked == [refresh]
    assert login.forms[-1] == {"token": refresh, "client_id": CLIENT, "client_secret": CLIENT_SECRET}
    (missing,) = result(post(authenticator, {"other": refresh}, REVOKE), 400)
    assert missing.startswith("body.token: ")
    for broken, status in (((502, {}), 503), ((401, {"error": "invalid_client"}), 503), ((400, {"error": "x"}), 400)):
        login.broken = broken
        assert result(post(authenticator, {"token": refresh}, REVOKE), status)
    login.broken = None
    with start_authenticator(AUTHENTICATOR_REVOKE_URL="") as service:
        assert ACCOUNT in result(post(service, {"token": refresh}, REVOKE), 400)


def test_the_log_has_ids_and_no_secrets(start_authenticator: StartAuthenticator, login: Login, sql: Sql) -> None:
    with start_authenticator(AUTHENTICATOR_LOG_LEVEL="debug") as service:
        browser = browser_at(service)
        token = browser.create_token("ci")
        token_id, secret = parts(token)
        created = service.logged(event="audit", action="personal-access-tokens.create")
        assert (created["object"], created["username"]) == (f"personal-access-tokens/{token_id}", "ada")
        post(service, password("ada", token))
        post(service, password("bob", token))
        login.issuer.disabled.add("id-ada")
        post(service, password("ada", token))
        post(service, {"token": token}, REVOKE)
        assert service.logged(event="audit", action="tokens.revoke")
        for text in (secret, LOGIN_SECRET, *login.issuer.offline):
            assert text not in service.log
