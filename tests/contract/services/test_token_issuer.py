"""The lab's token issuer, and that the model hub takes its tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from strata_bench.services import free_port
from strata_services.token_issuer.service import public_part

from .conftest import StartHub
from .service_processes import Service, running

SECRET = "a-secret-of-the-contract-tests"
CLIENTS = {
    "verify": {"secret": SECRET, "audiences": ["ml-hub", "jupyterhub"], "scopes": ["models:read", "models:write"]},
    "wör:ld": {"secret": "p%ss word/+-and-more", "audiences": ["ml-hub"]},
}


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def settings(directory: Path, key: str, clients: object, port: int) -> dict[str, str]:
    (directory / "key.pem").write_text(key)
    (directory / "clients.json").write_text(clients if isinstance(clients, str) else json.dumps(clients))
    return {
        "TOKEN_ISSUER_ISSUER": f"http://127.0.0.1:{port}",
        "TOKEN_ISSUER_BIND_PORT": str(port),
        "TOKEN_ISSUER_SIGNING_KEY_FILE": str(directory / "key.pem"),
        "TOKEN_ISSUER_CLIENTS_FILE": str(directory / "clients.json"),
    }


@pytest.fixture(scope="module", params=["ES256", "RS256"])
def login(
    request: pytest.FixtureRequest, issuer_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """An issuer with a previous key, once for each kind of signing key."""
    directory = tmp_path_factory.mktemp("issuer")
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = ec.generate_private_key(ec.SECP256R1())
    if request.param == "RS256":
        key = rsa.generate_private_key(65537, 2048)
    previous = directory / "previous"
    previous.mkdir()
    (previous / "2025.pem").write_text(public_part(pem(ec.generate_private_key(ec.SECP256R1()))))
    port = free_port()
    environment = settings(directory, pem(key), CLIENTS, port)
    environment["TOKEN_ISSUER_PREVIOUS_KEYS_DIRECTORY"] = str(previous)
    with running(issuer_python, ["-m", "token_issuer"], environment, port, directory) as service:
        yield service


def ask(login: Service, client: str = "verify", secret: str = SECRET, **fields: str) -> requests.Response:
    data = {"grant_type": "client_credentials", **fields}
    return requests.post(f"{login.url}/token", auth=(client, secret), data=data, timeout=5)


def claims(login: Service, token: str) -> dict[str, Any]:
    """The claims, checked with the published keys."""
    key = jwt.PyJWKClient(f"{login.url}/jwks").get_signing_key_from_jwt(token)
    found: dict[str, Any] = jwt.decode(token, key, audience=["ml-hub", "jupyterhub"], issuer=login.url)
    return found


def test_discovery_document_names_its_own_routes(login: Service) -> None:
    document = requests.get(f"{login.url}/.well-known/openid-configuration", timeout=5).json()
    assert document["issuer"] == login.url
    assert document["grant_types_supported"] == ["client_credentials"]
    assert requests.get(document["jwks_uri"], timeout=5).json()["keys"]
    assert requests.post(document["token_endpoint"], timeout=5).status_code == 401


def thumbprint(key: dict[str, str]) -> str:
    """RFC 7638."""
    names = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}[key["kty"]]
    text = "{" + ",".join(f'"{name}":"{key[name]}"' for name in names) + "}"
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_keys_are_named_by_their_thumbprint_and_hold_nothing_private(login: Service) -> None:
    keys = requests.get(f"{login.url}/jwks", timeout=5).json()["keys"]
    assert len(keys) == 2
    for key in keys:
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & key.keys()
        assert key["use"] == "sig"
        assert key["kid"] == thumbprint(key)


def test_tokens_hold_for_at_most_an_hour_and_are_signed_with_the_current_key(login: Service) -> None:
    response = ask(login)
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    answer = response.json()
    found = claims(login, answer["access_token"])
    assert found["sub"] == "verify"
    assert found["aud"] == "ml-hub"
    assert found["scope"] == answer["scope"] == "models:read models:write"
    assert answer["token_type"] == "Bearer"
    assert found["exp"] - found["iat"] == answer["expires_in"] <= 3600
    assert abs(found["iat"] - time.time()) < 5
    header = jwt.get_unverified_header(answer["access_token"])
    assert header["kid"] == requests.get(f"{login.url}/jwks", timeout=5).json()["keys"][0]["kid"]
    assert header["typ"] == "at+jwt"
    assert claims(login, ask(login).json()["access_token"])["jti"] != found["jti"]


def test_the_secret_may_come_in_the_form(login: Service) -> None:
    fields = {"grant_type": "client_credentials", "client_id": "verify", "client_secret": SECRET}
    assert requests.post(f"{login.url}/token", data=fields, timeout=5).status_code == 200


def test_ids_and_secrets_are_form_encoded_in_basic(login: Service) -> None:
    pair = base64.b64encode(b"w%C3%B6r%3Ald:p%25ss+word%2F%2B-and-more").decode()
    data = {"grant_type": "client_credentials"}
    response = requests.post(f"{login.url}/token", headers={"Authorization": f"Basic {pair}"}, data=data, timeout=5)
    assert claims(login, response.json()["access_token"])["sub"] == "wör:ld"


def test_audience_and_scope_may_be_chosen_among_the_clients_own(login: Service) -> None:
    found = claims(login, ask(login, audience="jupyterhub", scope="models:read").json()["access_token"])
    assert (found["aud"], found["scope"]) == ("jupyterhub", "models:read")
    assert ask(login, audience="other").json()["error"] == "invalid_target"
    assert ask(login, scope="admin").json()["error"] == "invalid_scope"


@pytest.mark.parametrize(("client", "secret"), [("verify", "wrong"), ("verify", SECRET + "x"), ("nobody", SECRET)])
def test_wrong_credentials_get_one_answer(login: Service, client: str, secret: str) -> None:
    response = ask(login, client, secret)
    assert response.status_code == 401
    assert response.json() == {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
    assert response.headers["WWW-Authenticate"].startswith("Basic ")


def test_broken_requests_are_errors_of_the_protocol(login: Service) -> None:
    assert ask(login, grant_type="password").json()["error"] == "unsupported_grant_type"
    broken = requests.post(f"{login.url}/token", headers={"Authorization": "Basic %%%"}, timeout=5)
    assert (broken.status_code, broken.json()["error"]) == (401, "invalid_client")
    long = ask(login, scope="s" * 2000)
    assert (long.status_code, long.json()["error"]) == (400, "invalid_request")
    assert requests.get(f"{login.url}/token", timeout=5).status_code == 405


def test_nothing_secret_is_logged(login: Service) -> None:
    token = ask(login).json()["access_token"]
    ask(login, secret="a-wrong-secret-to-look-for")
    assert "token issued to client verify" in login.log
    assert "client 'verify' refused" in login.log
    for text in (SECRET, "a-wrong-secret-to-look-for", token, "PRIVATE KEY"):
        assert text not in login.log


def test_the_model_hub_takes_its_tokens(login: Service, start_hub: StartHub, hub_environment: dict[str, str]) -> None:
    with start_hub({**hub_environment, "ML_HUB_ISSUER": login.url}) as hub:
        url = f"{hub.url}/v3/ml-hub/models?limit=3"
        token = ask(login).json()["access_token"]
        response = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10)
        assert len(response.json()["items"]) == 3
        other = ask(login, audience="jupyterhub").json()["access_token"]
        assert requests.get(url, headers={"Authorization": f"Bearer {other}"}, timeout=10).status_code == 401


KEYS: dict[str, Callable[[], str]] = {
    "good": lambda: pem(ec.generate_private_key(ec.SECP256R1())),
    "text": lambda: "no key",
    "short": lambda: pem(rsa.generate_private_key(65537, 1024)),  # noqa: S505 (the point)
    "P-384": lambda: pem(ec.generate_private_key(ec.SECP384R1())),
}
"""Made when asked for: a test's name must not hold one."""


@pytest.mark.parametrize(
    ("key", "clients", "text"),
    [
        ("text", CLIENTS, "no unencrypted PEM private key"),
        ("short", CLIENTS, "1024 bits"),
        ("P-384", CLIENTS, "neither RSA nor EC P-256"),
        ("good", {}, "names no client"),
        ("good", '{"verify":', "no JSON"),
        ("good", {"verify": {"secret": "short-one", "audiences": ["a"]}}, "verify.secret"),
        ("good", {"verify": {"secret": SECRET}}, "verify.audiences"),
        ("good", {"verify": {"secret": SECRET, "audiences": ["a"], "scope": "x"}}, "verify.scope"),
    ],
)
def test_unusable_files_are_named(issuer_python: Path, tmp_path: Path, key: str, clients: object, text: str) -> None:
    environment = settings(tmp_path, KEYS[key](), clients, free_port())
    done = subprocess.run(
        [str(issuer_python), "-m", "token_issuer"],
        env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "short-one" not in done.stderr


def test_a_private_key_is_not_taken_for_a_previous_one(issuer_python: Path, tmp_path: Path) -> None:
    """Publishing needs its public part only, so no other is left with the service."""
    environment = settings(tmp_path, KEYS["good"](), CLIENTS, free_port())
    previous = tmp_path / "previous"
    previous.mkdir()
    (previous / "2025.pem").write_text(KEYS["good"]())
    environment["TOKEN_ISSUER_PREVIOUS_KEYS_DIRECTORY"] = str(previous)
    done = subprocess.run(
        [str(issuer_python), "-m", "token_issuer"],
        env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{previous / '2025.pem'}: is no PEM public key; `openssl pkey -pubout`" in done.stderr
    assert "Traceback" not in done.stderr


def test_lifetimes_above_an_hour_are_refused(issuer_python: Path, tmp_path: Path) -> None:
    environment = {**settings(tmp_path, KEYS["good"](), CLIENTS, free_port()), "TOKEN_ISSUER_LIFETIME_SECONDS": "3601"}
    done = subprocess.run(
        [str(issuer_python), "-m", "token_issuer"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "TOKEN_ISSUER_LIFETIME_SECONDS" in done.stderr
