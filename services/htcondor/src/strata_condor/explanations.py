"""What jobs wait for, written into their ads: for the provisioner, whose own token cannot change a job."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import urllib3

from strata_condor.queue import WAITS_FOR
from strata_condor.tokens import Refused

PATH = "/explanations"
IDENTITY = "provisioner"
SECONDS = 30.0
LONGEST_BODY = 64 * 1024


def secret_of(token_secret: str) -> str:
    """What the provisioner is known by, which issues no tokens.

    Args:
        token_secret: of the services that may request tokens.
    """
    return hmac.new(token_secret.encode(), IDENTITY.encode(), "sha256").hexdigest()


@dataclass(frozen=True)
class Explanations:
    """At the access point.

    Args:
        secret: of the provisioner.
        tenants: of the site.
        edit: sets the attribute of a tenant's jobs, by id.
    """

    secret: str = field(repr=False)
    tenants: Sequence[str]
    edit: Callable[[str, Sequence[str], str], None]

    def write(self, authorization: str, body: bytes) -> dict[str, Any]:
        """For {"tenant": …, "jobs": ["1.0", …], "text": …}.

        Raises:
            Refused: another secret, another body, or a schedd that does not respond.
        """
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.secret}".encode()):
            raise Refused(401, "the header Authorization must be `Bearer` and the entry provisioner-secret")
        try:
            request = json.loads(body)
            tenant, jobs, text = str(request["tenant"]), [str(job) for job in request["jobs"]], str(request["text"])
        except (ValueError, KeyError, TypeError):
            raise Refused(400, 'the body must be {"tenant": TENANT, "jobs": [ID], "text": TEXT}') from None
        if tenant not in self.tenants:
            raise Refused(400, f"the site has no tenant {tenant}")
        try:
            self.edit(tenant, jobs, text)
        except Exception as error:
            raise Refused(503, f"schedd of {tenant}: {type(error).__name__}: {error}") from None
        return {"jobs": len(jobs)}


def editor(domain: str) -> Callable[[str, Sequence[str], str], None]:
    """By HTCondor's client for Python, with the pool's key."""

    def edit(tenant: str, jobs: Sequence[str], text: str) -> None:
        import htcondor2  # type: ignore[import-not-found]  # noqa: PLC0415  # in the image only

        location = htcondor2.Collector().locate(htcondor2.DaemonType.Schedd, f"{tenant}@{domain}")
        # a job that has ended meanwhile is not an error for the others
        constraint = " || ".join(f"(ClusterId == {c} && ProcId == {p})" for c, _, p in (j.partition(".") for j in jobs))
        htcondor2.Schedd(location).edit(constraint, WAITS_FOR, json.dumps(text))

    return edit


def client(url: str, secret: str) -> Callable[[str, Sequence[str], str], None]:
    """The provisioner's side.

    Args:
        url: of the access point's server.
        secret: of the provisioner.
    """
    http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(5, read=SECONDS))

    def explain(tenant: str, jobs: Sequence[str], text: str) -> None:
        body = json.dumps({"tenant": tenant, "jobs": list(jobs), "text": text}).encode()
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        answer = http.request("POST", url + PATH, body=body, headers=headers)
        if answer.status >= 300:
            raise OSError(f"{url}{PATH}: {answer.status} {answer.data[:300].decode(errors='replace')}")

    return explain
