"""Fixtures: an issuer that takes passwords, and the authenticator in front of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strata_bench.service_processes import Service, http_server, running
from strata_bench.services import free_port, service_python
from strata_bench.token_issuer import Issuer, RsaKey, running_issuer

CLIENT, CLIENT_SECRET = "authenticator", "s3cret of + the & client"
PASSWORD = "correct horse: battery & staple"
ACCOUNT = "https://login.example.org/account"
ADDRESS = "192.0.2.1"
StartAuthenticator = Callable[..., AbstractContextManager[Service]]


@dataclass
class Login:
    """The issuer's token endpoint; it refuses as Keycloak does.

    Args:
        issuer: makes the tokens.
        broken: answers to all that comes: status and body; None: as Keycloak.
        forms: what came.
    """

    issuer: Issuer
    broken: tuple[int, Any] | None = None
    forms: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, form: dict[str, str]) -> tuple[int, Any]:
        """Status and body."""
        self.forms.append(form)
        if self.broken is not None:
            return self.broken
        clients = {CLIENT: CLIENT_SECRET, "own": "key"}
        if form.get("client_id") not in clients:
            return 401, {"error": "invalid_client", "error_description": "Invalid client or Invalid client credentials"}
        if form.get("client_secret") != clients[form["client_id"]]:
            return 401, {
                "error": "unauthorized_client",
                "error_description": "Invalid client or Invalid client credentials",
            }
        if form["grant_type"] == "password":
            if form["username"] == "new":
                return 400, {"error": "invalid_grant", "error_description": "Account is not fully set up"}
            if form["password"] != PASSWORD:
                return 401, {"error": "invalid_grant", "error_description": "Invalid user credentials"}
            return 200, self.tokens(form["username"])
        if form["grant_type"] == "refresh_token" and form["refresh_token"].count(".") == 2:
            return 200, self.tokens("ada")
        if form["grant_type"] == "authorization_code" and form["code"] == "code":
            return 200, self.tokens("ada")
        return 400, {"error": "invalid_grant", "error_description": "Code not valid"}

    def tokens(self, username: str) -> dict[str, Any]:
        """Of a login."""
        claims: dict[str, Any] = {"preferred_username": username, "email": f"{username}@example.org", "jti": "one"}
        audiences = ["authenticator", "ml-hub"]
        claims |= {"tapis/tenant_id": "lab", "tapis/username": username}
        access = self.issuer.token(aud=audiences, **claims)
        refresh = self.issuer.token(aud=self.issuer.url, exp=int(time.time()) + 1800, jti="two")
        return {"access_token": access, "expires_in": 300, "refresh_token": refresh, "refresh_expires_in": 1800}


@contextlib.contextmanager
def token_endpoint(issuer: Issuer) -> Iterator[Login]:
    """Answers on loopback."""
    login = Login(issuer)
    with http_server(lambda _: (405, {}, {}), post=login.answer) as url:
        login.url = f"{url}/token"
        yield login


@pytest.fixture(scope="session")
def shared_login() -> Iterator[Login]:
    """An issuer with one RS256 key and its token endpoint."""
    with running_issuer("authenticator") as issuer, token_endpoint(issuer) as login:
        issuer.keys = [RsaKey("first")]
        yield login


@pytest.fixture
def login(shared_login: Login) -> Iterator[Login]:
    """As new, before and after."""
    keys = list(shared_login.issuer.keys)
    shared_login.forms.clear()
    yield shared_login
    shared_login.broken, shared_login.issuer.keys, shared_login.issuer.available = None, keys, True


@pytest.fixture(scope="session")
def start_authenticator(shared_login: Login, tmp_path_factory: pytest.TempPathFactory) -> StartAuthenticator:
    """`with start_authenticator(AUTHENTICATOR_…="…") as service:` on a free port."""

    def start(**environment: str) -> AbstractContextManager[Service]:
        port = free_port()
        directory: Path = tmp_path_factory.mktemp("authenticator")
        (directory / "secret").write_text(f"{CLIENT_SECRET}\n")
        settings = {
            "AUTHENTICATOR_SITE": "lab",
            "AUTHENTICATOR_BASE_URL": f"http://127.0.0.1:{port}",
            "AUTHENTICATOR_SERVICES": "authenticator,pods",
            "AUTHENTICATOR_ISSUER": shared_login.issuer.url,
            "AUTHENTICATOR_AUTHORIZE_URL": "https://login.example.org/auth",
            "AUTHENTICATOR_TOKEN_URL": shared_login.url,
            "AUTHENTICATOR_ACCOUNT_URL": ACCOUNT,
            "AUTHENTICATOR_CLIENT_ID": CLIENT,
            "AUTHENTICATOR_CLIENT_SECRET_FILE": str(directory / "secret"),
            "AUTHENTICATOR_BIND_PORT": str(port),
            "AUTHENTICATOR_METRICS_PORT": str(free_port()),
            "AUTHENTICATOR_TRUSTED_PROXIES": "1",
            "AUTHENTICATOR_KEYS_LIFETIME_SECONDS": "1",
            "AUTHENTICATOR_KEYS_REFRESH_SECONDS": "0.2",
            **environment,
        }
        arguments = ["-m", "authenticator", "serve"]
        return running(service_python("authenticator"), arguments, settings, port, directory)

    return start


@pytest.fixture(scope="session")
def authenticator(start_authenticator: StartAuthenticator) -> Iterator[Service]:
    """The service."""
    with start_authenticator() as service:
        yield service
