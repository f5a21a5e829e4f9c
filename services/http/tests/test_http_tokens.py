"""Tokens, checked against the issuer's published keys."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives import serialization

from strata_bench.service_processes import Service, http_server
from strata_bench.token_issuer import Issuer, Key, running_issuer

from .conftest import REFRESH_SECONDS, StartExample

MakeToken = Callable[[Issuer], str]


def ask(example: Service, authorization: str | None) -> requests.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return requests.get(f"{example.url}/v1/caller", headers=headers, timeout=60)


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def forged_head_and_body(issuer: Issuer, algorithm: str) -> str:
    """By hand: no library signs what follows."""
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    head = {"alg": algorithm, "typ": "JWT", "kid": issuer.keys[0].key_id}
    return f"{encode(json.dumps(head).encode())}.{encode(json.dumps(claims).encode())}"


def unsigned(issuer: Issuer) -> str:
    return forged_head_and_body(issuer, "none") + "."


def signed_with_the_public_key(issuer: Issuer) -> str:
    """HS256 with the published key as the secret: the classical confusion of algorithms."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public = issuer.keys[0].private.public_key().public_bytes(encoding, form)
    text = forged_head_and_body(issuer, "HS256")
    return f"{text}.{encode(hmac.digest(public, text.encode(), 'sha256'))}"


def with_changed_claims(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    claims = {**jwt.decode(issuer.token(), options={"verify_signature": False}), "sub": "administrator"}
    return f"{head}.{encode(json.dumps(claims).encode())}.{signature}"


BAD_TOKENS: dict[str, tuple[MakeToken, str]] = {
    "expired": (lambda i: i.token(exp=int(time.time()) - 60), "expired"),
    "without expiry": (lambda i: i.token(exp=None), "is missing the claim exp"),
    "not yet valid": (lambda i: i.token(nbf=int(time.time()) + 600), "not a valid JWT"),
    "another audience": (lambda i: i.token(aud="jupyterhub"), "audience"),
    "no audience": (lambda i: i.token(aud=None), "is missing the claim aud"),
    "another issuer": (lambda i: i.token(iss="https://evil.example"), "issuer"),
    "no subject": (lambda i: i.token(sub=None), "is missing the claim sub"),
    "another key with our key's id": (lambda i: i.token(Key(i.keys[0].key_id)), "signature"),
    "unknown key id": (lambda i: i.token(Key("stranger")), "no key"),
    "no key id": (lambda i: i.token(headers={"kid": None}), "key id"),
    "changed claims": (with_changed_claims, "signature"),
    "algorithm none": (unsigned, "algorithm"),
    "HMAC with the public key": (signed_with_the_public_key, "algorithm"),
    "no JWT": (lambda _: "rubbish", "not a valid JWT"),
    "three dots": (lambda _: "a.b.c", "not a valid JWT"),
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_bad_tokens_are_refused(example: Service, issuer: Issuer, name: str) -> None:
    make, reason = BAD_TOKENS[name]
    token = make(issuer)
    response = ask(example, f"Bearer {token}")
    assert response.status_code == 401
    assert reason in response.json()["detail"]
    challenge = response.headers["WWW-Authenticate"]
    assert challenge.startswith('Bearer realm="example", error="invalid_token", error_description="')
    assert token not in response.text


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Basic dGVzdDp0ZXN0", "Token abc"])
def test_without_a_token_the_challenge_names_the_scheme(example: Service, authorization: str | None) -> None:
    response = ask(example, authorization)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="example"'
    assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("claims", "username", "tenants"),
    [
        ({}, "tester", []),
        ({"preferred_username": "ada", "groups": ["/staff", "/tenants/hep", "/tenants/bio", "/tenants/hep"]}, "ada",
         ["hep", "bio"]),
        ({"preferred_username": "", "groups": ["/tenants/hep/admins", "tenants/hep", "hep"]}, "tester", []),
        ({"groups": ["/tenants/a,b", "/tenants/"]}, "tester", []),
        ({"preferred_username": 7, "groups": [7, None, "/tenants/hep\n", "/tenants/-"]}, "tester", []),
        ({"groups": "/tenants/hep"}, "tester", []),
    ],
)  # fmt: skip
def test_the_caller_is_a_member_of_the_tenants_in_groups(
    example: Service, issuer: Issuer, claims: dict[str, Any], username: str, tenants: list[str]
) -> None:
    response = ask(example, f"Bearer {issuer.token(**claims)}")
    assert response.json() == {"subject": "tester", "username": username, "tenants": tenants, "administered": []}


def test_administrators_of_a_tenant_are_members_too(example: Service, issuer: Issuer) -> None:
    groups = ["/tenants/hep", "/tenants/hep/admins", "/tenants/bio/admins", "/tenants/geo", "/tenants/geo/admins/x"]
    assert ask(example, f"Bearer {issuer.token(groups=groups)}").json()["administered"] == ["hep"]


def test_several_audiences_and_a_slow_clock_are_fine(example: Service, issuer: Issuer) -> None:
    assert ask(example, f"Bearer {issuer.token(aud=['other', 'example'])}").status_code == 200
    assert ask(example, f"Bearer {issuer.token(exp=int(time.time()) - 5)}").status_code == 200


def test_no_token_is_ever_logged(example: Service, issuer: Issuer) -> None:
    good, bad = issuer.token(jti="good"), issuer.token(aud="other")
    for token in (good, bad):
        ask(example, f"Bearer {token}")
    assert example.logged(path="/v1/caller", status=200)["subject"] == "tester"
    assert example.logged(path="/v1/caller", status=401)
    for token in (good, bad):
        assert token not in example.log
        assert token.rsplit(".", 1)[1] not in example.log


def test_keys_rotate_and_outlive_an_outage(start_example: StartExample) -> None:
    with running_issuer("example") as rotating, start_example({"EXAMPLE_ISSUER": rotating.url}) as example:
        old = rotating.token()
        assert ask(example, f"Bearer {old}").status_code == 200
        fetches = rotating.fetches
        assert fetches == 1
        for _ in range(5):
            assert ask(example, f"Bearer {old}").status_code == 200
        assert rotating.fetches == fetches

        rotating.keys.insert(0, Key("second"))
        time.sleep(0.6)
        assert ask(example, f"Bearer {rotating.token()}").status_code == 200
        assert ask(example, f"Bearer {old}").status_code == 200

        # strangers cannot make the service ask the issuer at will
        strangers = [f"Bearer {rotating.token(Key(f'stranger-{number}'))}" for number in range(10)]
        fetches, begin = rotating.fetches, time.monotonic()
        for stranger in strangers:
            assert ask(example, stranger).status_code == 401
        assert rotating.fetches - fetches <= 1 + (time.monotonic() - begin) / REFRESH_SECONDS

        rotating.available = False
        time.sleep(0.6)
        assert ask(example, f"Bearer {rotating.token(Key('third'))}").status_code == 401
        assert ask(example, f"Bearer {rotating.token()}").status_code == 200

        rotating.available = True
        rotating.keys = [Key("fourth")]
        time.sleep(0.6)
        assert ask(example, f"Bearer {rotating.token()}").status_code == 200
        assert ask(example, f"Bearer {old}").status_code == 401


def test_an_issuer_that_never_answered_is_503(start_example: StartExample) -> None:
    silent = Issuer("example")
    silent.available = False
    with http_server(silent.answer) as url:
        silent.url = url
        with start_example({"EXAMPLE_ISSUER": url}) as example:
            response = ask(example, f"Bearer {silent.token()}")
            assert response.status_code == 503
            assert response.headers["Retry-After"]
            silent.available = True
            time.sleep(0.6)
            assert ask(example, f"Bearer {silent.token()}").status_code == 200


def test_keys_may_come_from_another_address_than_the_issuer(start_example: StartExample, issuer: Issuer) -> None:
    environment = {
        "EXAMPLE_ISSUER": "https://login.example.org",
        "EXAMPLE_JWKS_URL": f"{issuer.url}/keys",
    }
    with start_example(environment) as example:
        assert ask(example, f"Bearer {issuer.token(iss='https://login.example.org')}").status_code == 200
        assert ask(example, f"Bearer {issuer.token()}").status_code == 401


def test_a_token_comes_in_either_header_but_only_one_comes(example: Service, issuer: Issuer) -> None:
    one, other = issuer.token(), issuer.token(sub="other")

    def status(**headers: str) -> int:
        return requests.get(f"{example.url}/v1/caller", headers=headers, timeout=60).status_code

    assert status(**{"X-Tapis-Token": one}) == 200
    assert status(**{"X-Tapis-Token": one, "Authorization": f"Bearer {one}"}) == 200
    assert status(**{"X-Tapis-Token": one, "Authorization": f"Bearer {other}"}) == 400
    assert status(**{"X-Tapis-Token": "faulty"}) == 401
    assert status(**{"X-Tapis-Token": ""}) == 401
