"""JupyterHub, as users reach it: at its host name, over TLS. The servers are those of a user for checks."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import requests

from strata.catalogue.site_services import batch_server
from strata.verify.pods import Kubectl, PodRequest, run
from strata.verify.waiting import settled
from strata.verify.workers import ACCELERATORS
from strata_services.jupyterhub.kernel import MESSAGE_SECONDS, Server
from strata_services.jupyterhub.needs import HUB_PRIORITY, NAMESPACE, USER_PRIORITY, VERIFY_TOKEN, VERIFY_USER
from strata_services.jupyterhub.service import SERVICE
from strata_services.jupyterhub.settings import JupyterHub

if TYPE_CHECKING:
    from strata.site.context import SiteContext
    from strata.site.outputs import ImageOutputs

pytestmark = pytest.mark.xdist_group(ACCELERATORS)  # all are of one user, whose server may have one
STOP_SECONDS = 180.0
"""In which a server and its pod have ended."""
USER_PATH = f"/hub/api/users/{VERIFY_USER}"
PODS = ("get", "pods", "--namespace", NAMESPACE.name, "--output", "json", "--selector")
WRITTEN = "strata-verify.txt"
COMPUTE = f"""
import os, pathlib, socket, numpy
marker = pathlib.Path.home() / {WRITTEN!r}
print(json.dumps({{
    "determinant": round(float(numpy.linalg.det(2 * numpy.eye(3)))),
    "user": os.getuid(),
    "token": os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"),
    "before": marker.read_text() if marker.exists() else None,
}}))
"""
SHARED = "/shared"
SHARE = """
import json, os, pathlib
folder = pathlib.Path("{folder}")
(folder / "{name}").mkdir()
file = folder / "{name}" / "file"
file.write_text("one")
print(json.dumps({{
    "folders": os.listdir(folder.parent),
    "link": os.path.realpath(pathlib.Path.home() / folder.parent.name),
    "group": file.stat().st_gid,
}}))
"""
CHANGE = """
import os, sys
with open(sys.argv[1], "a") as file:
    file.write(" two")
with open(sys.argv[1]) as file:
    print(file.read())
os.remove(sys.argv[1])
os.rmdir(os.path.dirname(sys.argv[1]))
"""
NOBODY = 65534
JOB_SECONDS = 400
"""Of a short job from its submission to its end, with a new execution point."""
JOB = f"""
import json, os, pathlib, tempfile, time, htcondor2
os.chdir(tempfile.mkdtemp())
end = time.monotonic() + {JOB_SECONDS}
def wait(done):
    while not done() and time.monotonic() < end:
        print(flush=True)
        time.sleep(0.5)
wait(pathlib.Path(os.environ["_CONDOR_SEC_TOKEN_DIRECTORY"], "token").exists)
schedd = htcondor2.Schedd()
job = htcondor2.Submit({{
    "executable": "/usr/bin/expr", "transfer_executable": "false", "arguments": "6 * 7", "output": "out",
    "request_cpus": "1", "request_memory": "64MB", "request_disk": "1MB", "should_transfer_files": "YES",
}})
submitted = schedd.submit(job, spool=True)
this = f"ClusterId == {{submitted.cluster()}}"
schedd.spool(submitted)
ad = lambda: schedd.query(this, ["JobStatus", "Owner"])[0]
wait(lambda: ad()["JobStatus"] == 4)
found, text = ad(), None
if found["JobStatus"] == 4:
    schedd.retrieve(this)
    text = pathlib.Path("out").read_text()
else:
    schedd.act(htcondor2.JobAction.Remove, this)
print(json.dumps({{"status": found["JobStatus"], "owner": found["Owner"], "output": text}}))
"""
"""Submits a job without any settings and fetches its output, as users would."""


@dataclass(frozen=True)
class Hub:
    """The hub's API and the servers behind it, with the token for checks.

    Args:
        http: finds the site's names.
        host: name of the hub.
        token: of the hub's service for checks.
        context: the site.
    """

    http: requests.Session
    host: str
    token: str = field(repr=False)
    context: SiteContext

    def call(self, method: str, path: str, body: object = None) -> requests.Response:
        """A request with the token."""
        return self.http.request(
            method,
            f"https://{self.host}{path}",
            json=body,
            headers={"Authorization": f"token {self.token}"},
            timeout=MESSAGE_SECONDS,
            allow_redirects=False,
        )

    def start(self, profile: str, seconds: float) -> None:
        """Starts the user's server, unless one runs, and waits until it responds."""
        if self.server().get("ready"):
            return
        response = self.call("POST", f"{USER_PATH}/server", {"profile": profile})
        assert response.status_code in (201, 202), response.text
        end = time.monotonic() + seconds
        while not self.server().get("ready"):
            server = self.server()
            assert server, f"the server with the profile {profile} did not start: `kubectl logs deployment/hub`"
            assert time.monotonic() < end, f"the server with the profile {profile} is not ready after {seconds:.0f} s"
            time.sleep(0.2)

    def server(self) -> dict[str, Any]:
        """The user's server as the hub has it; empty for none."""
        state: dict[str, Any] = self.call("GET", USER_PATH).json().get("servers", {}).get("", {})
        return state

    def stop(self) -> None:
        """Stops the user's server and waits until its pod is deleted."""
        assert self.call("DELETE", f"{USER_PATH}/server").status_code in (202, 204, 400, 404)
        assert not settled(self.server, lambda server: not server, STOP_SECONDS), "the server is not stopped"

    def run(self, code: str) -> str:
        """What a kernel of the user's server prints."""
        return Server(self.http, self.host, VERIFY_USER, self.token).run(self.context, code)


@pytest.fixture(scope="module")
def settings(context: SiteContext) -> JupyterHub:
    """JupyterHub's entry in site.yaml."""
    section = SERVICE.of(context.site)
    if section is None:
        pytest.skip(f"site {context.site.name} has no platform.services.{SERVICE.key}")
    return section


@pytest.fixture(scope="module")
def hub(context: SiteContext, settings: JupyterHub, http: requests.Session) -> Iterator[Hub]:
    """The hub, with a user for checks."""
    host = f"{settings.hostname}.{context.site.domain}"
    token = context.secrets.get(VERIFY_TOKEN.name)
    client = Hub(http, host, token, context)
    assert client.call("POST", USER_PATH).status_code in (201, 409)
    client.stop()  # of an interrupted run
    yield client
    client.stop()
    assert client.call("DELETE", USER_PATH).status_code == 204


def pods(kubectl: Kubectl, selector: str) -> list[dict[str, Any]]:
    """Pods of the namespace."""
    items: list[dict[str, Any]] = json.loads(kubectl(*PODS, selector))["items"]
    return items


def user_pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    """Pods of the user for checks."""
    return pods(kubectl, f"hub.jupyter.org/username={VERIFY_USER}")


def no_user_pods(kubectl: Kubectl) -> bool:
    """Whether the user's pods are gone, once those that end have ended."""
    return settled(lambda: user_pods(kubectl), lambda pods: not pods, STOP_SECONDS) == []


def test_login_is_the_issuers(hub: Hub, context: SiteContext) -> None:
    """JupyterHub sends users without a session to the site's issuer, and has them come back to its own name."""
    response = hub.http.get(f"https://{hub.host}/hub/oauth_login", allow_redirects=False, timeout=30)
    assert response.status_code == 302, response.text
    target = response.headers["Location"]
    external = context.site.platform.services.external_issuer
    assert external is not None or f".{context.site.domain}/" in target.partition("?")[0]
    assert "client_id=jupyterhub" in target
    assert f"redirect_uri=https%3A%2F%2F{hub.host}%2Fhub%2Foauth_callback" in target
    assert "code_challenge_method=S256" in target


def test_hub_refuses_strangers(hub: Hub) -> None:
    """JupyterHub's API rejects requests without a token, and the token for checks reaches no other user."""
    anonymous = hub.http.get(f"https://{hub.host}/hub/api/users", timeout=30)
    assert anonymous.status_code == 403
    listed = hub.call("GET", "/hub/api/users")
    assert listed.status_code == 200, listed.text
    assert {user["name"] for user in listed.json()} == {VERIFY_USER}
    assert hub.call("POST", "/hub/api/users/another").status_code in (403, 404)


def test_servers_have_profiles_of_the_site(hub: Hub, kubectl: Kubectl) -> None:
    """JupyterHub starts no server with a profile that the site does not define."""
    hub.call("POST", f"{USER_PATH}/server", {"profile": "no-such-profile"})
    assert not settled(hub.server, lambda server: not server, STOP_SECONDS), "the server still exists"
    assert no_user_pods(kubectl)


def test_hub_reads_which_accelerators_are_free(hub: Hub, kubectl: Kubectl) -> None:
    """The hub may list the nodes and pods of the cluster, for the page of the profiles."""
    assert hub
    account = f"--as=system:serviceaccount:{NAMESPACE.name}:hub"
    answers = [kubectl("auth", "can-i", "list", kind, "--all-namespaces", account) for kind in ("nodes", "pods")]
    assert [answer.strip().splitlines()[-1] for answer in answers] == ["yes", "yes"]


def test_server_submits_jobs(hub: Hub, settings: JupyterHub, context: SiteContext) -> None:
    """A user's server submits a job to the site's batch system without settings or a login, as the user and the tenant,
    and fetches the job's output."""
    tenants = context.site.platform.tenants
    if batch_server(context.site) is None or not tenants:
        pytest.skip(f"site {context.site.name} has no batch system, or no tenants")
    hub.start(settings.profiles[0].name, settings.start_seconds)
    result = json.loads(hub.run(JOB))
    assert result == {"status": 4, "owner": f"{tenants[0].name}.{VERIFY_USER}", "output": "42\n"}


def test_members_share_their_tenants_folder(
    hub: Hub, settings: JupyterHub, context: SiteContext, kubectl: Kubectl, images: ImageOutputs
) -> None:
    """What a user's server writes into its tenant's folder, another member changes and deletes, under another user id.
    The server has no other tenant's folder."""
    tenants = context.site.platform.tenants
    if settings.shared_export is None or not tenants:
        pytest.skip(f"site {context.site.name} has no shared folders")
    tenant = tenants[0]
    hub.start(settings.profiles[0].name, settings.start_seconds)
    name = f".strata-verify-{uuid.uuid4().hex[:8]}"
    result = json.loads(hub.run(SHARE.format(folder=f"{SHARED}/{tenant.name}", name=name)))
    assert result == {"folders": [tenant.name], "link": SHARED, "group": tenant.group_id}
    request = PodRequest(
        name=f"verify{name[-9:]}",
        image=images.images["pod-base"],
        command=["python3", "-c", CHANGE, f"/volume/{name}/file"],
        tolerations=[{"operator": "Exists"}],
        claim=settings.shared_export,
        identity=(NOBODY, tenant.group_id or 0),
    )
    assert run(kubectl, tenant.name, request)[0].strip() == "one two"


def test_server_computes_and_keeps_its_home(hub: Hub, settings: JupyterHub, kubectl: Kubectl) -> None:
    """A user's server computes with NumPy over a WebSocket, and the next one, with another profile where the site has
    accelerators, finds its files. A stopped server leaves no pod."""
    text = uuid.uuid4().hex
    hub.start(settings.profiles[0].name, settings.start_seconds)
    result = json.loads(hub.run("import json" + COMPUTE + f"marker.write_text({text!r})\n"))
    assert (result["determinant"], result["user"], result["token"]) == (8, 1000, False)
    (pod,) = user_pods(kubectl)
    assert pod["spec"]["priorityClassName"] == USER_PRIORITY.level
    hub.stop()
    assert no_user_pods(kubectl)

    with_card = next((p for p in settings.profiles if p.accelerators), settings.profiles[-1])
    hub.start(with_card.name, settings.start_seconds)
    assert json.loads(hub.run("import json" + COMPUTE))["before"] == text
    (pod,) = user_pods(kubectl)
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert sum(int(v) for name, v in limits.items() if "/" in name) == sum(with_card.accelerators.values())
    hub.run(f"import pathlib; (pathlib.Path.home() / {WRITTEN!r}).unlink()")
    hub.stop()
    assert no_user_pods(kubectl)


def test_hub_is_not_preempted(hub: Hub, kubectl: Kubectl) -> None:
    """JupyterHub's own pods have the priority of the platform."""
    assert hub
    for component in ("hub", "proxy"):
        items = settled(lambda of=component: pods(kubectl, f"component={of}"), lambda items: len(items) == 1)  # type: ignore[misc]
        (pod,) = items
        assert pod["spec"]["priorityClassName"] == HUB_PRIORITY.level
