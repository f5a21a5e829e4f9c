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
from urllib.parse import unquote

PORT = 8080
LONGEST_BODY = 4096
JOBS = "/jobs/"
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
        remove_jobs: of an owner, `TENANT.USER`; returns how many, or raises OSError.
        submitters: the owners of jobs, as in AccountingGroup (`-` in a tenant's name is `_`); or raises OSError.
    """

    secret: str = field(repr=False)
    tenants: Collection[str]
    domain: str
    lifetime: int
    command: tuple[str, ...] = ("condor_token_create",)
    remove_jobs: Callable[[str], int] = field(default=lambda _: 0, repr=False)
    submitters: Callable[[], Collection[str]] = field(default=tuple, repr=False)

    def issue(self, authorization: str, body: bytes) -> dict[str, Any]:
        """`token` and `expires` (seconds since 1970) for {"tenant": …, "user": …}.

        Raises:
            Refused: another secret, no user, or a tenant that the site does not have.
        """
        self._authorize(authorization)
        try:
            request = json.loads(body)
            tenant, user = str(request["tenant"]), str(request["user"])
        except (ValueError, KeyError, TypeError):
            raise Refused(400, 'the body must be {"tenant": TENANT, "user": USER}') from None
        self._check(tenant, user)
        identity = f"{tenant}.{user}@{self.domain}"
        options = ("-identity", identity, "-lifetime", str(self.lifetime), "-authz", "READ", "-authz", "WRITE")
        expires = int(time.time()) + self.lifetime
        done = subprocess.run([*self.command, *options], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise Refused(500, f"condor_token_create: {done.stderr.strip()}")
        return {"token": done.stdout.strip(), "expires": expires}

    def owners(self, authorization: str) -> dict[str, Any]:
        """`owners`: everyone with jobs, idle, running or held, each as `TENANT.USER`.

        Raises:
            Refused: another secret, or the pool does not respond.
        """
        self._authorize(authorization)
        names = {tenant.replace("-", "_"): tenant for tenant in self.tenants}
        try:
            parts = (submitter.partition(".") for submitter in self.submitters())
            return {"owners": sorted(f"{names[group]}.{user}" for group, _, user in parts if group in names)}
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(503, str(error)) from None

    def remove(self, authorization: str, owner: str) -> dict[str, Any]:
        """Removes the jobs of `TENANT.USER`, who has left the tenant; `removed` is their number.

        Raises:
            Refused: as of `issue`, or the pool does not respond.
        """
        self._authorize(authorization)
        tenant, _, user = owner.partition(".")
        self._check(tenant, user)
        try:
            return {"removed": self.remove_jobs(owner)}
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(503, str(error)) from None

    def _authorize(self, authorization: str) -> None:
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.secret}".encode()):
            raise Refused(401, "the header Authorization must be `Bearer` and the secret htcondor_token_secret")

    def _check(self, tenant: str, user: str) -> None:
        if tenant not in self.tenants:
            raise Refused(400, f"the site has no tenant {tenant}")
        if not USER.fullmatch(user):
            raise Refused(400, f"{user!r} is not a user's name: lower-case letters, digits, dots, dashes, underscores")


Endpoint = Callable[[str, bytes], dict[str, Any]]
"""Answers the header Authorization and a body."""


def server(
    issuer: Issuer, port: int = PORT, others: Mapping[str, tuple[int, Endpoint]] | None = None
) -> ThreadingHTTPServer:
    """`POST /tokens`, `GET /jobs`, `DELETE /jobs/TENANT.USER`; `GET /healthz` for probes.

    Args:
        issuer: of tokens.
        port: that it listens on.
        others: path to the longest body in bytes and the endpoint.
    """
    endpoints = {"/tokens": (LONGEST_BODY, issuer.issue), **(others or {})}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(200, self._get)

        def do_POST(self) -> None:
            self._respond(201, self._post)

        def do_DELETE(self) -> None:
            self._respond(200, self._delete)

        def _get(self) -> dict[str, Any]:
            if self.path == "/healthz":
                return {}
            if self.path == JOBS.rstrip("/"):
                return issuer.owners(self._authorization)
            raise Refused(404, "POST /tokens")

        def _post(self) -> dict[str, Any]:
            if self.path not in endpoints:
                raise Refused(404, "POST /tokens")
            longest, endpoint = endpoints[self.path]
            length = self.headers.get("Content-Length", "0")
            if not length.isdigit() or int(length) > longest:
                raise Refused(413, f"the body is longer than {longest} B")
            return endpoint(self._authorization, self.rfile.read(int(length)))

        def _delete(self) -> dict[str, Any]:
            if not self.path.startswith(JOBS):
                raise Refused(404, "DELETE /jobs/TENANT.USER")
            return issuer.remove(self._authorization, unquote(self.path.removeprefix(JOBS)))

        @property
        def _authorization(self) -> str:
            return self.headers.get("Authorization", "")

        def _respond(self, status: int, answer: Callable[[], dict[str, Any]]) -> None:
            try:
                self._answer(status, answer())
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
    from strata_condor import explanations  # noqa: PLC0415  # they need names of this module
    from strata_condor.leaving import remove_jobs, submitters  # noqa: PLC0415  # they need names of this module

    secret = Path(os.environ["STRATA_TOKEN_SECRET_FILE"]).read_text().strip()
    tenants = os.environ["STRATA_TENANTS"].split(",")
    lifetime, domain = int(os.environ["STRATA_TOKEN_SECONDS"]), os.environ["STRATA_DOMAIN"]
    explain = explanations.Explanations(explanations.secret_of(secret), tenants, explanations.editor(domain))
    others = {explanations.PATH: (explanations.LONGEST_BODY, explain.write)}
    issuer = Issuer(secret, tenants, domain, lifetime, remove_jobs=remove_jobs, submitters=submitters)
    server(issuer, others=others).serve_forever()
