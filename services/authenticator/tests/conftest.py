"""Fixtures: an issuer that takes passwords and logs browsers in, and the authenticator in front of it."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strata_bench.login_issuer import LoginIssuer, Window
from strata_bench.service_processes import Service, http_server, running
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.token_issuer import RsaKey

CLIENT, CLIENT_SECRET = "authenticator", "s3cret of + the & client"
LOGIN_CLIENT, LOGIN_SECRET = "authenticator-login", "s3cret of % logins"
PASSWORD = "correct horse: battery & staple"
ACCOUNT = "https://login.example.org/account"
NAME = "tokens.example.org"
WEB = f"https://{NAME}"
StartAuthenticator = Callable[..., AbstractContextManager[Service]]


@dataclass
class Login:
    """The issuer's token and revocation endpoints; they refuse as Keycloak does.

    Args:
        issuer: makes the tokens, and logs browsers in.
        broken: answers to all that comes: status and body; None: as Keycloak.
        forms: what came.
        revoked: tokens that were revoked.
        responds: cleared, answers wait until it is set.
    """

    issuer: LoginIssuer
    broken: tuple[int, Any] | None = None
    forms: list[dict[str, str]] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    responds: threading.Event = field(default_factory=threading.Event)

    def reset(self) -> None:
        """As new, but for the keys."""
        self.broken, self.issuer.available, self.issuer.rotates, self.issuer.offers_offline = None, True, False, True
        self.issuer.disabled.clear()
        self.forms.clear()
        self.revoked.clear()
        self.responds.set()
        self.user("ada")

    def user(self, name: str) -> str:
        """Who logs in by browser from now on; a token of that user."""
        self.issuer.user = {"sub": f"id-{name}", "preferred_username": name}
        return self.issuer.token(**self.issuer.user)

    def answer(self, form: dict[str, str]) -> tuple[int, Any]:
        """Status and body."""
        self.forms.append(form)
        assert self.responds.wait(60)
        if self.broken is not None:
            return self.broken
        if form.get("client_id") == LOGIN_CLIENT:
            return self.issuer.exchange(form)
        clients = {CLIENT: CLIENT_SECRET, "own": "key"}
        if form.get("client_id") not in clients:
            return 401, {"error": "invalid_client", "error_description": "Invalid client or Invalid client credentials"}
        if form.get("client_secret") != clients[form["client_id"]]:
            return 401, {
                "error": "unauthorized_client",
                "error_description": "Invalid client or Invalid client credentials",
            }
        if "grant_type" not in form:
            self.revoked.append(form["token"])
            return 200, {}
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


@pytest.fixture(scope="session")
def shared_login() -> Iterator[Login]:
    """An issuer with one RS256 key and its token endpoint."""
    issuer = LoginIssuer("authenticator", LOGIN_CLIENT, LOGIN_SECRET, f"{WEB}/.login/callback")
    issuer.keys = [RsaKey("first")]
    login = Login(issuer)
    with http_server(issuer.answer, post=login.answer) as issuer.url:
        yield login


@pytest.fixture
def login(shared_login: Login) -> Iterator[Login]:
    """As new, before and after."""
    keys = list(shared_login.issuer.keys)
    shared_login.reset()
    yield shared_login
    shared_login.issuer.keys = keys
    shared_login.reset()


@pytest.fixture(scope="session")
def database(postgresql: PostgreSQL) -> dict[str, str]:
    """Environment of a migrated database."""
    environment = postgresql.create_database("authenticator", "AUTHENTICATOR")
    command = [str(service_python("authenticator")), "-m", "authenticator", "migrate"]
    for changed in (True, False):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert json.loads(done.stdout) == {"schema": "0001", "changed": changed}, done.stderr
    return environment


@pytest.fixture
def sql(postgresql: PostgreSQL, database: dict[str, str]) -> Iterator[Callable[[str], str]]:
    """`sql("SELECT …")` in the database, which has no tokens, before and after."""

    def run(statement: str) -> str:
        return postgresql.sql(statement, database["AUTHENTICATOR_DATABASE_NAME"])

    run("DELETE FROM personal_access_tokens")
    yield run
    run("DELETE FROM personal_access_tokens")


@pytest.fixture(scope="session")
def start_authenticator(
    shared_login: Login, database: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> StartAuthenticator:
    """`with start_authenticator(AUTHENTICATOR_…="…") as service:` on a free port; an empty variable is left out."""

    def start(**environment: str) -> AbstractContextManager[Service]:
        port = free_port()
        directory: Path = tmp_path_factory.mktemp("authenticator")
        for name, text in {"password-client": CLIENT_SECRET, "client": LOGIN_SECRET, "key": "k" * 40}.items():
            (directory / name).write_text(f"{text}\n")
        url = shared_login.issuer.url
        settings = {
            **database,
            "AUTHENTICATOR_SITE": "lab",
            "AUTHENTICATOR_BASE_URL": f"http://127.0.0.1:{port}",
            "AUTHENTICATOR_WEB_URL": WEB,
            "AUTHENTICATOR_SERVICES": "authenticator,pods",
            "AUTHENTICATOR_ISSUER": url,
            "AUTHENTICATOR_AUTHORIZE_URL": f"{url}/authorize",
            "AUTHENTICATOR_TOKEN_URL": f"{url}/token",
            "AUTHENTICATOR_REVOKE_URL": f"{url}/revoke",
            "AUTHENTICATOR_ACCOUNT_URL": ACCOUNT,
            "AUTHENTICATOR_PASSWORD_CLIENT_ID": CLIENT,
            "AUTHENTICATOR_PASSWORD_CLIENT_SECRET_FILE": str(directory / "password-client"),
            "AUTHENTICATOR_CLIENT_ID": LOGIN_CLIENT,
            "AUTHENTICATOR_CLIENT_SECRET_FILE": str(directory / "client"),
            "AUTHENTICATOR_SESSION_KEY_FILE": str(directory / "key"),
            "AUTHENTICATOR_BIND_PORT": str(port),
            "AUTHENTICATOR_METRICS_PORT": str(free_port()),
            "AUTHENTICATOR_TRUSTED_PROXIES": "1",
            "AUTHENTICATOR_KEYS_LIFETIME_SECONDS": "1",
            "AUTHENTICATOR_KEYS_REFRESH_SECONDS": "0.2",
            **environment,
        }
        given = {name: value for name, value in settings.items() if value}
        return running(service_python("authenticator"), ["-m", "authenticator", "serve"], given, port, directory)

    return start


@pytest.fixture(scope="session")
def authenticator(start_authenticator: StartAuthenticator) -> Iterator[Service]:
    """The service."""
    with start_authenticator() as service:
        yield service


@dataclass
class Browser(Window):
    """A browser at the pages."""

    def begin_token(self, name: str, days: int = 30) -> str:
        """Sends the form; the URL that the issuer sends the browser back to."""
        self.open(f"{WEB}/")
        begun = self.send(f"{WEB}/tokens", {"name": name, "days": str(days)})
        assert begun.status_code == 303, begun.text
        return self.follow(begun.headers["Location"], f"{WEB}/.login/callback")

    def create_token(self, name: str, days: int = 30) -> str:
        """The token that the last page shows."""
        page = self.send(self.begin_token(name, days))
        assert page.status_code == 201, page.text
        return shown_token(page.text)


def shown_token(page: str) -> str:
    """Of the page at the end of its creation."""
    match = re.search(r'<pre [^>]*id="token">([^<]+)</pre>', page)
    assert match, page
    return match.group(1)


def browser_at(service: Service) -> Browser:
    """One without cookies."""

    def route(url: str) -> tuple[str, dict[str, str]]:
        return (url.replace(WEB, service.url), {"Host": NAME}) if url.startswith(WEB) else (url, {})

    return Browser(route)


@pytest.fixture
def browser(authenticator: Service, login: Login, sql: Callable[[str], str]) -> Browser:
    """One of ada, who has no tokens."""
    return browser_at(authenticator)
