"""A member leaves: session, token, server and batch jobs end within a minute, by the issuer's groups and by command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import requests

from strata.access.kubectl import ask_program
from strata.access.users import Account, add_user
from strata.catalogue.issuer import Issuer
from strata.errors import UserError
from strata.models.platform import Tenant
from strata.site.context import SiteContext
from strata.verify.waiting import settled
from strata_services.htcondor.queue import opened_queue
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import User, new_user

from .batch import submission
from .commands import strata

pytestmark = pytest.mark.nightly

START_SECONDS = 180.0
END_SECONDS = 180.0
"""Within a minute on an idle machine: two answers of the issuer, and the end of a pod."""
FORBIDDEN = 403
WITHOUT_GROUPS = """
import json, os, sys
from pathlib import Path
from keycloak_realm.__main__ import ADMINISTRATOR, _previous_too
from keycloak_realm.api import Api
from keycloak_realm.desired import load
given, directory = json.load(sys.stdin), Path(os.environ["KEYCLOAK_REALM_DIRECTORY"])
realm = load(directory / "site.json", _previous_too(directory, "signing-key.pem")).realm
api = Api(os.environ["KEYCLOAK_URL"], realm, ADMINISTRATOR, _previous_too(directory, "admin-client-secret"))
(user,) = api.get("/users", username=given["name"], exact="true")
for group in api.get(f"/users/{user['id']}/groups", max=1000):
    api.delete(f"/users/{user['id']}/groups/{group['id']}")
json.dump({}, sys.stdout)
"""
"""What an operator does in the issuer's console."""


@dataclass(frozen=True)
class Working:
    """A member with a running server and a batch job.

    Args:
        user: with the browser's session.
        tenant: of the user.
        token: of the hub.
        cluster: of the job.
    """

    user: User
    tenant: Tenant
    token: str = field(repr=False)
    cluster: str

    def left(self, http: requests.Session, kubectl: Callable[..., str]) -> dict[str, object]:
        """What the user still has, by its name; nothing of what has ended."""
        headers = {"Authorization": f"token {self.token}"}
        status = http.get(f"{self.user.hub}hub/api/user", headers=headers, timeout=60).status_code
        page = self.user.http.get(f"{self.user.hub}hub/home", timeout=60)
        leftovers: dict[str, object] = {
            "token": status if status != FORBIDDEN else None,
            "session": page.url if page.status_code == 200 and page.url.endswith("/hub/home") else None,
            "server": [pod["metadata"]["name"] for pod in self.user.pods()],
            "jobs": self.jobs(kubectl),
        }
        return {name: what for name, what in leftovers.items() if what}

    def jobs(self, kubectl: Callable[..., str]) -> list[str]:
        """Owners of what is left of the job."""
        with opened_queue(kubectl, self.tenant.name) as queue:
            return [job["Owner"] for job in queue.jobs(self.cluster)]


@pytest.fixture
def working(context: SiteContext, kubectl: Callable[..., str], own_issuer: Issuer) -> Iterator[Working]:
    """Of the last tenant; user, server and job are gone afterwards."""
    site = context.site
    for service in (HTCONDOR, JUPYTERHUB):
        if service.of(site) is None:
            pytest.skip(f"site {site.name} has no platform.services.{service.key}")
    notebooks, tenants = JUPYTERHUB.of(site), site.platform.tenants
    if notebooks is None or own_issuer.users is None or not tenants:
        pytest.skip(f"site {site.name} has no tenants, or no users of its own")
    tenant, name = tenants[-1], "leaving-test"
    profile = next(p.name for p in notebooks.profiles if not p.accelerators and not p.restricted)
    with new_user(context, kubectl, name, tenant.name) as (user, password):
        user.log_in(own_issuer, password)
        user.request_server(profile)
        user.wait_for_server(START_SECONDS)
        token = user.token()
        server = Server(user.http, user.hub.removeprefix("https://").rstrip("/"), name, token)
        code = submission("/bin/sleep", "3600") + "print(json.dumps(job.cluster()))"
        cluster = str(json.loads(server.run(context, code)))
        yield Working(user, tenant, token, cluster)
        identity = f"{tenant.name}.{name}"
        with opened_queue(kubectl, tenant.name) as queue:
            queue.remove(identity, user=identity)
        # the fixture removes the account, which a test may have done
        with suppress(UserError):
            add_user(context, Account(name, "", (tenant.name,)))


def without_groups(context: SiteContext, issuer: Issuer, name: str) -> None:
    assert issuer.users is not None
    target = (f"--namespace={issuer.users.namespace}", f"deployment/{issuer.users.deployment}")
    command = ("/usr/bin/python3", "-c", WITHOUT_GROUPS)
    ask_program(context, *target, command=command, request={"name": name}, seconds=60)


@pytest.mark.parametrize("how", ["group", "command"])
def test_nothing_is_left_of_who_leaves(
    context: SiteContext,
    http: requests.Session,
    kubectl: Callable[..., str],
    own_issuer: Issuer,
    working: Working,
    how: str,
) -> None:
    everything = {"token", "session", "server", "jobs"}
    assert set(working.left(http, kubectl)) == everything
    if how == "group":
        without_groups(context, own_issuer, working.user.name)
    else:
        removed = strata("users", "remove", context.site_file, working.user.name, "--yes")
        assert removed.returncode == 0, removed.stderr
        assert "still valid: the key of a bucket" in removed.stderr
    assert settled(lambda: working.left(http, kubectl), lambda left: not left, END_SECONDS, pause=2) == {}


def test_jobs_of_who_has_no_server_end_too(
    context: SiteContext, kubectl: Callable[..., str], own_issuer: Issuer, working: Working
) -> None:
    """Without a request of the member, who would be checked by it."""
    working.user.stop_server()
    assert working.jobs(kubectl)
    without_groups(context, own_issuer, working.user.name)
    assert settled(lambda: working.jobs(kubectl), lambda jobs: not jobs, END_SECONDS, pause=2) == []
