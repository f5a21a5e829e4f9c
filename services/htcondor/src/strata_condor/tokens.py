"""Issues users' tokens to services that know their users; only the access point's pod has the pool's key."""

from __future__ import annotations

import hmac
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 8080
LONGEST_BODY = 4096
USER = re.compile(r"[a-z_0-9][a-z0-9._-]{0,62}")
"""No @, which ends the name in an identity."""


class Refused(Exception):
    """A request that gets no token."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Issuer:
    """Tokens of one pool.

    Args:
        secret: of the services that may request tokens.
        tenants: of the site.
        domain: the pool's trust domain.
        lifetime: of a token, in seconds.
        command: makes a token.
    """

    secret: str = field(repr=False)
    tenants: Collection[str]
    domain: str
    lifetime: int
    command: tuple[str, ...] = ("condor_token_create",)

    def issue(self, authorization: str, body: bytes) -> dict[str, Any]:
        """`token` and `expires` (seconds since 1970) for {"tenant": …, "user": …}.

        Raises:
            Refused: another secret, no user, or a tenant that the site does not have.
        """
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.secret}".encode()):
            raise Refused(401, "the header Authorization must be `Bearer` and the secret htcondor_token_secret")
        try:
            request = json.loads(body)
            tenant, user = str(request["tenant"]), str(request["user"])
        except (ValueError, KeyError, TypeError):
            raise Refused(400, 'the body must be {"tenant": TENANT, "user": USER}') from None
        if tenant not in self.tenants:
            raise Refused(400, f"the site has no tenant {tenant}")
        if not USER.fullmatch(user):
            raise Refused(400, f"{user!r} is no user's name: lower-case letters, digits, dots, dashes, underscores")
        identity = f"{tenant}.{user}@{self.domain}"
        options = ("-identity", identity, "-lifetime", str(self.lifetime), "-authz", "READ", "-authz", "WRITE")
        expires = int(time.time()) + self.lifetime
        done = subprocess.run([*self.command, *options], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise Refused(500, f"condor_token_create: {done.stderr.strip()}")
        return {"token": done.stdout.strip(), "expires": expires}


Endpoint = Callable[[str, bytes], dict[str, Any]]
"""Answers the header Authorization and a body."""


def server(
    issuer: Issuer, port: int = PORT, others: Mapping[str, tuple[int, Endpoint]] | None = None
) -> ThreadingHTTPServer:
    """`POST /tokens`; `GET /healthz` for probes.

    Args:
        issuer: of tokens.
        port: that it listens on.
        others: path to the longest body in bytes and the endpoint.
    """
    endpoints = {"/tokens": (LONGEST_BODY, issuer.issue), **(others or {})}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/healthz"
            self._answer(200 if found else 404, {} if found else {"error": "POST /tokens"})

        def do_POST(self) -> None:
            try:
                if self.path not in endpoints:
                    raise Refused(404, "POST /tokens")
                longest, endpoint = endpoints[self.path]
                length = self.headers.get("Content-Length", "0")
                if not length.isdigit() or int(length) > longest:
                    raise Refused(413, f"the body is longer than {longest} B")
                body = self.rfile.read(int(length))
                self._answer(201, endpoint(self.headers.get("Authorization", ""), body))
            except Refused as error:
                self._answer(error.status, {"error": str(error)})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged."""

    return ThreadingHTTPServer(("", port), Handler)


def main() -> None:
    """Runs the issuer."""
    from strata_condor import explanations  # it imports Refused

    secret = Path(os.environ["STRATA_TOKEN_SECRET_FILE"]).read_text().strip()
    tenants = os.environ["STRATA_TENANTS"].split(",")
    lifetime, domain = int(os.environ["STRATA_TOKEN_SECONDS"]), os.environ["STRATA_DOMAIN"]
    explain = explanations.Explanations(explanations.secret_of(secret), tenants, explanations.editor(domain))
    others = {explanations.PATH: (explanations.LONGEST_BODY, explain.write)}
    server(Issuer(secret, tenants, domain, lifetime), others=others).serve_forever()
