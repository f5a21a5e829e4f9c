"""An issuer for tests: OpenID Connect's code flow, userinfo and refresh tokens, with Keycloak's answers."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from strata_bench.https_server import in_background
from strata_bench.services import free_port


@dataclass
class Issuer:
    """What it knows, and how it answers.

    Args:
        groups: of its users.
        port: that it listens on.
        disabled: users who may not log in.
        lifetime: of access tokens, in seconds.
        rotating: whether a refresh token is good for one use.
        down: whether it refuses everything with 503.
        pause: before it returns a user, in seconds.
    """

    groups: dict[str, list[str]]
    port: int = field(default_factory=free_port)
    disabled: set[str] = field(default_factory=set)
    lifetime: float = 900
    rotating: bool = False
    down: bool = False
    pause: float = 0
    user: str = ""
    requests: list[str] = field(default_factory=list)
    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end_sessions(self) -> None:
        """No token is valid any longer."""
        self._tokens.clear()

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser of `user` goes on."""
        answer = {"state": query["state"], "code": self._new(self.user, 60)}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """For a code or a refresh token."""
        with self._lock:
            given = form.get("code") or form["refresh_token"]
            user, end = self._tokens.get(given, ("", 0.0))
            if not user or end < time.time():
                return 400, {"error": "invalid_grant", "error_description": "Token is not active"}
            if user in self.disabled:
                return 400, {"error": "invalid_grant", "error_description": "User disabled"}
            if self.rotating or "code" in form:
                del self._tokens[given]
            access, refresh = self._new(user, self.lifetime), self._new(user, 3600)
        return 200, {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "scope": "openid"}

    def userinfo(self, token: str) -> tuple[int, dict[str, Any]]:
        """Of an access token's user, as it is now."""
        user, end = self._tokens.get(token, ("", 0.0))
        if not user or end < time.time() or user in self.disabled:
            return 401, {"error": "invalid_token"}
        # as Keycloak: without the claim where the user is in no group
        groups = {"groups": self.groups[user]} if self.groups[user] else {}
        return 200, {"sub": user, "preferred_username": user, **groups}

    def _new(self, user: str, seconds: float) -> str:
        token = secrets.token_hex(16)
        self._tokens[token] = (user, time.time() + seconds)
        return token

    @contextmanager
    def running(self) -> Iterator[None]:
        """Answers requests."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                issuer.requests.append(url.path)
                if issuer.down:
                    self._reply(503, {})
                elif url.path == "/authorize":
                    query = {name: values[0] for name, values in parse_qs(url.query).items()}
                    self._reply(302, {}, Location=issuer.authorize(query))
                else:
                    time.sleep(issuer.pause)
                    self._reply(*issuer.userinfo(self.headers["Authorization"].removeprefix("Bearer ")))

            def do_POST(self) -> None:
                issuer.requests.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self._reply(*(503, {}) if issuer.down else issuer.token(form))

            def _reply(self, status: int, content: dict[str, Any], **headers: str) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Logs nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        with in_background(server):
            yield
