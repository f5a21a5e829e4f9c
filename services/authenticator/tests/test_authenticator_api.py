"""The authenticator over HTTP, in front of an issuer that refuses as Keycloak does."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from strata_bench.service_processes import Service
from strata_bench.token_issuer import RsaKey
from strata_bench.waiting import eventually

from .calls import get, password, post, result
from .conftest import ACCOUNT, CLIENT_SECRET, PASSWORD, WEB, Login, StartAuthenticator

FAULTY = {"X-Tapis-Token": "faulty", "Authorization": "Bearer other"}


def pem(key: RsaKey) -> str:
    return key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def test_site_and_tenant_are_the_site(authenticator: Service, login: Login) -> None:
    (site,), (tenant,) = (result(get(authenticator, path)) for path in ("/sites", "/tenants"))
    assert (site["site_id"], site["primary"], site["site_admin_tenant_id"]) == ("lab", True, "lab")
    assert site["services"] == ["authenticator", "pods"]
    assert (tenant["tenant_id"], tenant["site_id"], tenant["status"]) == ("lab", "lab", "active")
    assert tenant["base_url"] == site["base_url"] == authenticator.url
    assert result(get(authenticator, "/sites/lab")) == site
    assert result(get(authenticator, "/tenants/lab")) == tenant
    assert "this is lab" in result(get(authenticator, "/tenants/other"), 404)
    assert result(get(authenticator, "/tenants?offset=1")) == []
    (wrong,) = result(get(authenticator, "/sites?limit=0"), 400)
    assert wrong.startswith("query.limit: ")


@pytest.mark.parametrize("path", ["/sites", "/sites/lab", "/tenants", "/tenants/lab"])
def test_a_faulty_token_breaks_nothing(authenticator: Service, path: str) -> None:
    assert get(authenticator, path, **FAULTY).status_code == 200


def test_the_public_key_rotates_and_outlives_an_outage(start_authenticator: StartAuthenticator, login: Login) -> None:
    def published() -> str:
        key: str = result(get(service, "/tenants/lab"))["public_key"]
        return key

    old = login.issuer.keys[0]
    assert isinstance(old, RsaKey)
    login.issuer.available = False
    with start_authenticator() as service:
        assert published() == "", "tenants are listed before the issuer responds"
        login.issuer.available = True
        eventually(lambda: published() == pem(old), 60, "the key of the issuer that responds now")
        new = RsaKey("second")
        login.issuer.keys = [new, old]
        eventually(lambda: published() == pem(new), 60, "the new key")
        login.issuer.available = False
        outages = service.log.count("issuer does not respond")

        def noticed() -> bool:
            assert published() == pem(new), "the last key is kept"
            return service.log.count("issuer does not respond") > outages

        eventually(noticed, 60, "silence of the issuer when asked for its keys")
        assert published() == pem(new)


def test_a_login_gives_tokens_of_the_issuer(authenticator: Service, login: Login) -> None:
    response = post(authenticator, password(), **FAULTY)
    tokens = result(response, 201)
    assert response.headers["Cache-Control"] == "no-store"
    access = tokens["access_token"]
    assert (access["expires_in"], access["jti"]) == (300, "one")
    assert access["expires_at"].endswith("+00:00")
    assert tokens["refresh_token"]["expires_in"] == 1800
    (form,) = login.forms
    assert form == {**password(), "scope": "openid", "client_id": "authenticator", "client_secret": CLIENT_SECRET}
    for headers in ({"X-Tapis-Token": access["access_token"]}, {"Authorization": f"Bearer {access['access_token']}"}):
        profile = result(get(authenticator, "/oauth2/userinfo", **headers))
        assert profile == {"username": "ada", "name": "", "email": "ada@example.org"}
    again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]["refresh_token"]}
    assert result(post(authenticator, again), 201)["access_token"]["access_token"]


def test_a_form_is_as_good_as_json(authenticator: Service, login: Login) -> None:
    url, form = f"{authenticator.url}/v3/oauth2/tokens", password()
    assert result(requests.post(url, data=form, headers={"X-Forwarded-For": "198.51.100.1"}, timeout=60), 201)
    assert login.forms[0]["password"] == PASSWORD


def test_a_client_of_the_caller_is_used(authenticator: Service, login: Login) -> None:
    code = {"grant_type": "authorization_code", "code": "code", "redirect_uri": "https://me.example.org/"}
    assert result(post(authenticator, code, Authorization="Basic b3duOmtleQ=="), 201)
    assert result(post(authenticator, {**code, "client_id": "own", "client_key": "key"}), 201)
    assert [form["client_id"] for form in login.forms] == ["own", "own"]
    assert {form["redirect_uri"] for form in login.forms} == {"https://me.example.org/"}
    for client in ({"client_id": "own", "client_key": "other"}, {"client_id": "none", "client_key": "key"}):
        assert "client_id and client_key" in result(post(authenticator, {**code, **client}), 401)
    (wrong_header,) = result(post(authenticator, code, Authorization="Basic ???"), 400)
    assert wrong_header.startswith("header.authorization: ")
    assert "log in again" in result(post(authenticator, {**code, "code": "used"}), 401)


def test_refusals_show_what_to_do(authenticator: Service, login: Login) -> None:
    assert "password is wrong" in result(post(authenticator, password(word="guess")), 401)
    message = result(post(authenticator, password("new")), 400)
    assert "temporary password" in message
    assert ACCOUNT in message
    for error in ("unauthorized_client", "unsupported_grant_type"):
        login.broken = 400, {"error": error}
        message = result(post(authenticator, password()), 400)
        assert "personal access token" in message
        assert WEB in message


@pytest.mark.parametrize(
    "broken",
    [
        (502, {}),
        (200, []),
        (200, {}),
        (401, {"error": "invalid_client"}),
        (401, {"error": "unauthorized_client"}),
    ],
)
def test_a_broken_issuer_is_503(authenticator: Service, login: Login, broken: tuple[int, Any]) -> None:
    login.broken = broken
    response = post(authenticator, password())
    assert result(response, 503)
    assert response.headers["Retry-After"]


def test_an_issuer_that_is_away_is_503(start_authenticator: StartAuthenticator) -> None:
    with start_authenticator(AUTHENTICATOR_TOKEN_URL="http://127.0.0.1:9/token") as service:
        assert "try again" in result(post(service, password()), 503)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "body.grant_type: "),
        ({"grant_type": "client_credentials"}, "body.grant_type: "),
        ({"grant_type": "password", "username": "ada"}, "body: "),
        ({"grant_type": "password", "username": "ada", "password": ""}, "body.password: "),
        ({"grant_type": "password", "username": "ada", "password": ["hunter2"]}, "body.password: "),
        ({"grant_type": "refresh_token"}, "body: "),
    ],
)
def test_values_that_cannot_be_are_named(authenticator: Service, body: dict[str, Any], where: str) -> None:
    response = post(authenticator, body)
    assert any(line.startswith(where) for line in result(response, 400)), response.text
    assert "hunter2" not in response.text


def test_other_bodies_are_refused(authenticator: Service) -> None:
    url = f"{authenticator.url}/v3/oauth2/tokens"
    for content, kind, status in (
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"a=1&a=2", "application/x-www-form-urlencoded", 400),
        (b"grant_type=password", "text/plain", 415),
        (b"x" * 20_000, "application/json", 413),
    ):
        headers = {"Content-Type": kind, "X-Forwarded-For": "198.51.100.2"}
        assert result(requests.post(url, data=content, headers=headers, timeout=60), status)


def test_the_redirect_leads_to_the_issuer_only(authenticator: Service, login: Login) -> None:
    query = (
        "client_id=own&redirect_uri=https://evil.example.org/%3Fa%3D1&state=x%26client_id%3Dother&response_type=code"
        "&code_challenge=abc&code_challenge_method=S256&evil=1"
    )
    response = get(authenticator, f"/oauth2/authorize?{query}", **FAULTY)
    assert response.status_code == 302
    target = urlsplit(response.headers["Location"])
    assert f"{target.scheme}://{target.netloc}{target.path}" == f"{login.issuer.url}/authorize"
    assert parse_qs(target.query) == {
        "client_id": ["own"],
        "redirect_uri": ["https://evil.example.org/?a=1"],
        "response_type": ["code"],
        "state": ["x&client_id=other"],
        "code_challenge": ["abc"],
        "code_challenge_method": ["S256"],
    }
    assert result(get(authenticator, "/oauth2/authorize"), 400)


def test_logins_of_one_name_are_limited(authenticator: Service) -> None:
    statuses = [post(authenticator, password("mallory", "guess")).status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]
    assert post(authenticator, password()).status_code == 201, "others log in"


def test_the_log_has_names_and_no_secrets(authenticator: Service) -> None:
    refresh = result(post(authenticator, password(), **{"X-Request-ID": "log"}), 201)["refresh_token"]["refresh_token"]
    post(authenticator, {"grant_type": "refresh_token", "refresh_token": "x.y.z"})
    record = authenticator.logged(event="audit", request_id="log")
    assert (record["action"], record["username"], record["outcome"]) == ("tokens.create", "ada", "success")
    for secret in (PASSWORD, CLIENT_SECRET, refresh, "x.y.z"):
        assert secret not in authenticator.log


def test_userinfo_needs_a_token(authenticator: Service, login: Login) -> None:
    assert "X-Tapis-Token" in result(get(authenticator, "/oauth2/userinfo"), 401)
    assert result(get(authenticator, "/oauth2/userinfo", **{"X-Tapis-Token": "faulty"}), 401)
    one, other = login.issuer.token(sub="one"), login.issuer.token(sub="other")
    both = {"X-Tapis-Token": one, "Authorization": f"Bearer {other}"}
    assert "different tokens" in result(get(authenticator, "/oauth2/userinfo", **both), 400)
    same = {"X-Tapis-Token": one, "Authorization": f"Bearer {one}"}
    assert result(get(authenticator, "/oauth2/userinfo", **same))["username"] == "one"
    foreign = login.issuer.token(aud="ml-hub")
    assert "audience" in result(get(authenticator, "/oauth2/userinfo", **{"X-Tapis-Token": foreign}), 401)
