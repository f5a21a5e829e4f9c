"""An issuer that logs browsers in, and a browser without a screen, for tests of services."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import requests

from strata_bench.service_processes import http_server
from strata_bench.token_issuer import Issuer

SESSION_KEY = "k" * 40
"""Of services in tests."""
REDIRECTS = (301, 302, 303, 307, 308)


class LoginIssuer(Issuer):
    """Authorization and token endpoint of one client: codes with PKCE, and offline refresh tokens.

    Args:
        audience: of tokens for a service.
        client: id of the client.
        secret: of the client.
        redirect_url: the only one of the client.
    """

    def __init__(self, audience: str, client: str, secret: str, redirect_url: str) -> None:
        super().__init__(audience)
        self.client, self.secret, self.redirect_url = client, secret, redirect_url
        self.user: dict[str, Any] = {}
        """Claims of whoever logs in."""
        self.changes: dict[str, Any] = {}
        """Claims of an ID token that are wrong."""
        self.offline: dict[str, dict[str, Any]] = {}
        """By offline refresh token, the claims of its user."""
        self.disabled: set[str] = set()
        """Subjects of users whose tokens are not refreshed."""
        self.rotates = False
        """Whether a refresh token is good once."""
        self.offers_offline = True
        """Whether the client may have offline refresh tokens."""
        self._codes: dict[str, dict[str, str]] = {}

    def login_settings(self, prefix: str, directory: Path) -> dict[str, str]:
        """Environment of a service that logs browsers in here.

        Args:
            prefix: of its settings, without the underscore.
            directory: for the files that some of them name.
        """
        secret, key = directory / "client-secret", directory / "session-key"
        secret.write_text(f"{self.secret}\n")
        key.write_text(SESSION_KEY)
        settings = {
            "ISSUER": self.url,
            "AUTHORIZE_URL": f"{self.url}/authorize",
            "TOKEN_URL": f"{self.url}/token",
            "CLIENT_ID": self.client,
            "CLIENT_SECRET_FILE": str(secret),
            "SESSION_KEY_FILE": str(key),
        }
        return {f"{prefix}_{name}": value for name, value in settings.items()}

    def answer(self, path: str) -> tuple[int, dict[str, str], Any]:
        """As any issuer; beside it, /authorize logs the user in."""
        split = urlsplit(path)
        if split.path != "/authorize":
            return super().answer(path)
        query = dict(parse_qsl(split.query))
        expected = {"client_id": self.client, "redirect_uri": self.redirect_url, "response_type": "code"}
        expected |= {"code_challenge_method": "S256"}
        if not query.items() >= expected.items() or "openid" not in query["scope"].split():
            return 400, {}, {"error": "invalid_request"}
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        location = f"{self.redirect_url}?{urlencode({'code': code, 'state': query['state']})}"
        return 303, {"Location": location}, {}

    def exchange(self, form: Mapping[str, str]) -> tuple[int, Any]:
        """Status and body of the token endpoint; a code is good once."""
        if not self.available:
            return 503, {}
        if form.get("grant_type") == "refresh_token":
            return self._refresh(form)
        query = self._codes.pop(form.get("code", ""), None)
        if query is None or form.get("redirect_uri") != self.redirect_url:
            return 400, {"error": "invalid_grant"}
        if (form.get("client_id"), form.get("client_secret")) != (self.client, self.secret):
            return 401, {"error": "invalid_client"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != query["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        claims = {"aud": self.client, "nonce": query["nonce"], **self.user, **self.changes}
        tokens = {"access_token": self.token(**self.user), "id_token": self.token(**claims)}
        if self.offers_offline and "offline_access" in query["scope"].split():
            tokens["refresh_token"] = self._offline_token(self.user)
        return 200, tokens

    def _refresh(self, form: Mapping[str, str]) -> tuple[int, Any]:
        """Of offline refresh tokens alone; the answer has the next one, or the same again."""
        if (form.get("client_id"), form.get("client_secret")) != (self.client, self.secret):
            return 401, {"error": "invalid_client"}
        token = form.get("refresh_token", "")
        # one of several uses at once gets a token that is good once
        user = self.offline.pop(token, None) if self.rotates else self.offline.get(token)
        if user is None or user["sub"] in self.disabled:
            return 400, {"error": "invalid_grant"}
        following = self._offline_token(user) if self.rotates else token
        return 200, {"access_token": self.token(**user), "expires_in": 300, "refresh_token": following}

    def _offline_token(self, user: Mapping[str, Any]) -> str:
        token = secrets.token_urlsafe(64)
        self.offline[token] = dict(user)
        return token


@contextlib.contextmanager
def running_login_issuer(issuer: LoginIssuer) -> Iterator[LoginIssuer]:
    """Answers on loopback; the token endpoint is at /token."""
    with http_server(issuer.answer, post=issuer.exchange) as issuer.url:
        yield issuer


Route = Callable[[str], tuple[str, dict[str, str]]]
"""Where a URL leads in a test, and the headers that a proxy adds."""


@dataclass
class Window:
    """A browser's window: cookies by host, kept and sent as those with the prefix __Host- are.

    Args:
        route: of the test.
        cookies: by host.
    """

    route: Route
    cookies: dict[str, dict[str, str]] = field(default_factory=dict)

    def send(self, url: str, form: Mapping[str, str] | None = None, **headers: str) -> requests.Response:
        """One GET, as for a page unless the headers are others; an empty header is left out.

        Args:
            url: as a user sees it.
            form: to POST instead, from a page of the same name unless the header Origin is another.
            headers: with underscores for hyphens.
        """
        host = urlsplit(url).netloc
        target, added = self.route(url)
        sent = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", **added}
        if form is not None:
            sent["Origin"] = f"{urlsplit(url).scheme}://{host}"
        if kept := self.cookies.get(host):
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in kept.items())
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        kept_headers = {name: value for name, value in sent.items() if value}
        method = "GET" if form is None else "POST"
        answer = requests.request(method, target, data=form, headers=kept_headers, allow_redirects=False, timeout=60)
        for line in answer.raw.headers.getlist("Set-Cookie"):
            self._keep(host, line)
        return answer

    def open(self, url: str) -> tuple[str, requests.Response]:
        """Follows redirects; the last URL and its answer."""
        for _ in range(12):
            answer = self.send(url)
            if answer.status_code not in REDIRECTS:
                return url, answer
            url = urljoin(url, answer.headers["Location"])
        raise AssertionError(f"redirects do not end: {url}")

    def follow(self, url: str, until: str) -> str:
        """Follows redirects up to a URL that begins so, without requesting it."""
        for _ in range(12):
            if url.startswith(until):
                return url
            answer = self.send(url)
            assert answer.status_code in REDIRECTS, (url, answer.text)
            url = answer.headers["Location"]
        raise AssertionError(f"redirects never come to {until}")

    def _keep(self, host: str, line: str) -> None:
        first, *attributes = (part.strip() for part in line.split(";"))
        name, _, value = first.partition("=")
        by_name = {part.partition("=")[0].lower(): part.partition("=")[2] for part in attributes}
        assert name.startswith("__Host-"), line
        assert {"secure", "httponly"} <= by_name.keys(), line
        assert (by_name["path"], by_name["samesite"], "domain" in by_name) == ("/", "lax", False), line
        kept = self.cookies.setdefault(host, {})
        if int(by_name["max-age"]) > 0:
            kept[name] = value
        else:
            kept.pop(name, None)
