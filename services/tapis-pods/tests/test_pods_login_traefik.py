"""The login in front of a pod, by the real Traefik on a real API server: what reaches the pod's program."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
import websocket

from strata_bench.login_issuer import LoginIssuer, Window
from strata_bench.service_processes import Service
from strata_bench.traefik import Controller
from strata_bench.waiting import eventually

from .conftest import DOMAIN, WEB_URL, StartReconciler
from .kubelet import Kubelet
from .test_pods_login import ENTER, LOGIN
from .test_pods_names import ADDRESS, Lead, ask, connect, controller, lead_pod, serving
from .users import SECONDS, User
from .web_users import SESSION, log_in, route

__all__ = ["controller", "lead_pod", "log_in", "route"]
"""Fixtures."""


class Headers(BaseHTTPRequestHandler):
    """Answers with the headers that it got, as a list."""

    def do_GET(self) -> None:
        body = json.dumps(self.headers.items()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing."""


class Greeter(BaseHTTPRequestHandler):
    """A WebSocket whose first message has the user's name, and whose second one the client's message."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if "Sec-WebSocket-Key" not in self.headers:
            self.send_error(426)
            return
        # RFC 6455, sections 4.2.2 and 5.2
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accepted = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest()).decode()
        self.send_response(101)
        for header in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accepted)):
            self.send_header(*header)
        self.end_headers()
        self._send(self.headers.get("X-User", "nobody").encode())
        _, length, *mask = self.rfile.read(6)
        text = self.rfile.read(length & 0x7F)
        self._send(bytes(byte ^ mask[index % 4] for index, byte in enumerate(text)))
        self.close_connection = True

    def _send(self, text: bytes) -> None:
        self.wfile.write(bytes((0x81, len(text))) + text)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing."""


def received(controller: Controller, name: str, *headers: str) -> dict[str, list[str]]:
    """Headers that the pod's program gets, by name in lower case with hyphens."""
    status, _, body = ask(controller, name, "", "GET", "/", *headers)
    assert status == 200, body
    by_name: dict[str, list[str]] = {}
    for key, value in json.loads(body):
        by_name.setdefault(key.lower().replace("_", "-"), []).append(value)
    return by_name


def test_a_pod_gets_the_users_name_and_neither_sessions_nor_tokens(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, controller: Controller, lead_pod: Lead,
    api: Service, log_in: Callable[..., Window], issuer: LoginIssuer,
) -> None:  # fmt: skip
    user = {"X-User": "<<tapisusername>>"}
    networking = {
        "default": LOGIN | {"tapis_auth_response_headers": user, "ip_allow_list": ["127.0.0.0/8", "192.0.2.0/24"]},
        "login": LOGIN | {"port": 8001},
        "open": {"port": 8002},
    }
    with serving(ThreadingHTTPServer((ADDRESS, 0), Headers)) as port, start_reconciler():
        alice.create("web1", networking=networking)
        alice.wait("web1", "AVAILABLE")
        for target in (8000, 8001, 8002):
            lead_pod("web1", target, port)
        eventually(lambda: ask(controller, "web1-open")[0] == 200, SECONDS, "the page without a login is there")
        eventually(lambda: ask(controller, "web1")[0] == 401, SECONDS, "the page with one is closed")
        eventually(lambda: ask(controller, "web1-login")[0] == 401, SECONDS, "so is the other")
        assert ask(controller, "web1", "198.51.100.9")[0] == 403, "the list of addresses comes first"

        status, headers, _ = ask(controller, "web1", "", "GET", "/a?b=c", "Accept: text/html")
        assert (status, headers["location"].startswith(f"{WEB_URL}/.login/pod?")) == (303, True)
        assert "; Secure" in headers["set-cookie"]
        assert ask(controller, "web1", "", "GET", f"{ENTER}?code=x")[0] == 400, "never the program's path"
        forged = ("X-Forwarded-Host: web1-open." + DOMAIN, "X-Forwarded-Uri: /x", "X-Forwarded-Method: OPTIONS")
        assert ask(controller, "web1", "", "GET", "/", *forged)[0] == 401

        window = log_in("bob", "research")
        window.open(f"https://web1.{DOMAIN}/")
        session = f"{SESSION}={window.cookies[f'web1.{DOMAIN}'][SESSION]}"
        token = issuer.token(sub="id-bob", preferred_username="bob", groups=["/tenants/research"])
        own_headers = ("X-User: admin", "x-user: admin", "X_User: admin", "X-uSER: admin")
        own_tokens = (f"X_Tapis_Token: {token}", "Authorization: Basic YTpi")
        seen = received(controller, "web1", f"Cookie: theirs=1; {session}; more=2", *own_headers, *own_tokens)
        assert seen["x-user"] == ["bob"]
        assert seen["cookie"] == ["theirs=1; more=2"]
        assert seen["authorization"] == ["Basic YTpi"]
        assert "x-tapis-token" not in seen
        for own in (f"X-Tapis-Token: {token}", f"Authorization: Bearer {token}"):
            seen = received(controller, "web1", own, *own_headers, "Cookie: theirs=1")
            assert (seen["x-user"], seen["cookie"]) == (["bob"], ["theirs=1"])
            assert token not in json.dumps(seen)
        # a header that the browser declares the connection's own is not another's then
        seen = received(controller, "web1", f"Cookie: {session}", "Connection: X-User", "X-User: admin")
        assert seen.get("x-user", ["bob"]) == ["bob"]
        assert "cookie" not in seen
        assert ask(controller, "web1-login", "", "GET", "/", f"Cookie: {session}")[0] == 401
        assert received(controller, "web1-open", "X-User: anyone")["x-user"] == ["anyone"]
        assert urlsplit(api.url).port


def test_a_websocket_opens_behind_the_login(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, controller: Controller, lead_pod: Lead,
    log_in: Callable[..., Window],
) -> None:  # fmt: skip
    networking = {"default": LOGIN | {"tapis_auth_response_headers": {"X-User": "<<tapisusername>>"}}}
    with serving(ThreadingHTTPServer((ADDRESS, 0), Greeter)) as port, start_reconciler():
        alice.create("web1", networking=networking)
        alice.wait("web1", "AVAILABLE")
        lead_pod("web1", 8000, port)
        eventually(lambda: ask(controller, "web1")[0] == 401, SECONDS, "the page is closed")

        def opened(cookie: str) -> websocket.WebSocket:
            connection, url = connect(controller, "web1"), f"wss://web1.{DOMAIN}/"
            return websocket.create_connection(url, socket=connection, timeout=SECONDS, cookie=cookie)

        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            opened("theirs=1")
        assert refused.value.status_code == 401
        window = log_in("bob", "research")
        window.open(f"https://web1.{DOMAIN}/")
        with closing(opened(f"{SESSION}={window.cookies[f'web1.{DOMAIN}'][SESSION]}")) as channel:
            assert channel.recv() == "bob"
            channel.send("hello")
            assert channel.recv() == "hello"
