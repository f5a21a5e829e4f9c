"""One tenant gives a group a card, the other cannot, and both see their own data only. docs/stories.md shows it."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.access.kubectl import run_kubectl
from strata.access.login import user_kubeconfig
from strata.catalogue.issuer import Issuer
from strata.catalogue.needs.bucket import ACCESS_KEY, SECRET_KEY
from strata.catalogue.site_services import s3_endpoint
from strata.inventory.port_numbers import NFS
from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.platform import Tenant
from strata.site.context import SiteContext
from strata.site.host_list import address_of
from strata.site.outputs import write_private
from strata.verify.waiting import settled
from strata_services.accounting.service import AUDIENCE
from strata_services.accounting.service import SERVICE as ACCOUNTING
from strata_services.htcondor.queue import opened_queue
from strata_services.htcondor.schedds import schedds
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import User, new_user
from strata_services.object_storage.client import request as s3_request
from strata_services.object_storage.service import NAMESPACE as STORAGE_NAMESPACE
from strata_services.object_storage.service import SERVICE as OBJECT_STORAGE

from .attacks import NOTEBOOK, PROBE, keyless, probes_of, with_metadata, wrong
from .batch import submission
from .commands import strata_json
from .energy import energy_is_measured
from .quota import counts_together

NOTEBOOK_PORT = 8888
MEASUREMENT = "two-tenants.loss"
RECORDED_SECONDS = 180.0
WRITE = """
import json, os, pathlib, tempfile, time
text, tenant = {text!r}, {tenant!r}
(pathlib.Path.home() / "two-tenants.txt").write_text(text)
shared = pathlib.Path("/shared", tenant)
(shared / "two-tenants.txt").write_text(text)
print(json.dumps({{"from_bucket": (shared / "two-tenants.object").read_text()}}))
"""
REACH = """
import json, socket
def reached(address, port):
    try:
        socket.create_connection((address, port), 4).close()
        return "open"
    except OSError:
        return "closed"
print(json.dumps({{name: reached(*place) for name, place in {places!r}.items()}}))
"""
SPY = """
import json, os, pathlib, socket, tempfile, time, classad2, htcondor2
os.chdir(tempfile.mkdtemp())
def said(action):
    try:
        return str(action())
    except Exception as error:
        return type(error).__name__
def files_in(root):
    return [str(p) for p in pathlib.Path(root).rglob("two-tenants*")]
token = pathlib.Path(os.environ["_CONDOR_SEC_TOKEN_DIRECTORY"], "token")
while not token.exists():
    time.sleep(0.2)
schedd, this = htcondor2.Schedd(), "ClusterId == {cluster}"
acted = lambda action: lambda: schedd.act(action, this)["TotalSuccess"]
host, port = {schedd!r}.split(":")
version = "$CondorVersion: 23.9.6 2026-07-12 $"
address = "<" + socket.gethostbyname(host) + ":" + port + ">"
made_up = {{"MyAddress": address, "Name": "x", "Machine": "x", "MyType": "Scheduler", "CondorVersion": version}}
theirs = htcondor2.Schedd(classad2.ClassAd(made_up))
print(json.dumps({{
    "shared": os.listdir("/shared"),
    "files": files_in("/home") + files_in("/shared"),
    "nfs": said(lambda: socket.create_connection(({nfs!r}, {port}), 2)),
    "remove": said(acted(htcondor2.JobAction.Remove)),
    "release": said(acted(htcondor2.JobAction.Release)),
    "edit": said(lambda: schedd.edit(this, "Cmd", '"/bin/false"')),
    "own queue": said(lambda: schedd.query(projection=["Owner", "Args", "Environment"])),
    "their port": said(lambda: socket.create_connection((host, int(port)), 2)),
    "the collector's port": said(lambda: socket.create_connection(({collector!r}, 9618), 2)),
    "their queue": said(lambda: theirs.query()),
    "their jobs": said(lambda: theirs.act(htcondor2.JobAction.Remove, this)),
    "retrieve": said(lambda: schedd.retrieve(this)),
    "retrieved": os.listdir(),
}}))
"""


@dataclass(frozen=True)
class Member:
    """A member who is logged in everywhere.

    Args:
        user: at JupyterHub.
        tenant: of the user.
        token: of JupyterHub.
        access: of the API for measurements.
        kubeconfig: with the user's login.
    """

    user: User
    tenant: Tenant
    token: str = field(repr=False)
    access: str = field(repr=False)
    kubeconfig: Path

    def configuration(self, method: str, tenant: Tenant, path: str, body: object = None) -> requests.Response:
        """A request to JupyterHub's API for configurations of tenants."""
        return self.user.http.request(
            method,
            f"{self.user.hub}hub/api/tenants/{tenant.name}/configuration{path}",
            json=body,
            headers={"Authorization": f"token {self.token}"},
            timeout=60,
        )

    def measurements(self, context: SiteContext, method: str, **options: Any) -> requests.Response:
        """A request to accounting's API."""
        settings = ACCOUNTING.of(context.site)
        assert settings is not None
        assert settings.measurements is not None
        url = f"https://{settings.measurements.hostname}.{context.site.domain}{AUDIENCE.path}"
        headers = {"Authorization": f"Bearer {self.access}"}
        return self.user.http.request(method, url, headers=headers, timeout=60, **options)

    def kubectl(self, context: SiteContext, *arguments: str) -> str:
        """What kubectl prints, errors too."""
        done = run_kubectl(context, f"--kubeconfig={self.kubeconfig}", *arguments, seconds=60)
        return done.stdout + done.stderr

    def bucket_key(self, context: SiteContext, tenant: Tenant) -> dict[str, str] | str:
        """The key of a tenant's bucket, or why the user does not see it."""
        said = self.kubectl(context, "get", "secret", "bucket-secrets", f"--namespace={tenant.name}", "--output=json")
        if not said.startswith("{"):
            return said
        data: Mapping[str, str] = json.loads(said)["data"]
        return {name: base64.b64decode(data[name]).decode() for name in (ACCESS_KEY, SECRET_KEY)}

    def run(self, context: SiteContext, code: str) -> Any:
        """What a kernel of the user's server prints, JSON."""
        host = self.user.hub.removeprefix("https://").rstrip("/")
        return json.loads(Server(self.user.http, host, self.user.name, self.token).run(context, code))


@pytest.fixture(scope="module")
def tenants(context: SiteContext) -> tuple[Tenant, Tenant, str]:
    """A tenant with cards and one without, and the kind of the cards."""
    site = context.site
    for service in (ACCOUNTING, HTCONDOR, JUPYTERHUB, OBJECT_STORAGE):
        if service.of(site) is None:
            pytest.skip(f"site {site.name} has no platform.services.{service.key}")
    notebooks = JUPYTERHUB.of(site)
    assert notebooks is not None
    kinds = {kind for profile in notebooks.profiles for kind in profile.accelerators}
    with_cards = [t for t in site.platform.tenants if kinds & set(t.quota.accelerators)]
    without = [t for t in site.platform.tenants if not t.quota.accelerators]
    if not with_cards or not without:
        pytest.skip(f"site {site.name} has no tenant with cards for notebooks, or none without")
    return with_cards[0], without[0], min(kinds & set(with_cards[0].quota.accelerators))


@pytest.fixture(scope="module")
def log_in(
    context: SiteContext, kubectl: Callable[..., str], own_issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Member]]:
    """`log_in("ada", tenant, administrator=True)` → the member, gone with the module."""
    scope = f"openid {own_issuer.scope.format(audience=AUDIENCE.name)}"
    directory = tmp_path_factory.mktemp("tenants")
    with ExitStack() as stack:

        def member(name: str, tenant: Tenant, *, administrator: bool = False) -> Member:
            user, password = stack.enter_context(
                new_user(context, kubectl, name, tenant.name, administrator=administrator)
            )
            tokens = user.log_in(own_issuer, password, scope)
            token, kubeconfig = directory / f"{name}.token", directory / f"{name}.kubeconfig"
            for file in (token, kubeconfig):
                stack.callback(file.unlink, missing_ok=True)
            content = user_kubeconfig(context, tenant.name)
            content["users"][0]["user"] = {"tokenFile": str(token)}
            write_private(token, tokens["id_token"])
            write_private(kubeconfig, json.dumps(content))
            return Member(user, tenant, user.token(), tokens["access_token"], kubeconfig)

        yield member


def test_two_tenants(
    context: SiteContext,
    kubectl: Callable[..., str],
    tenants: tuple[Tenant, Tenant, str],
    log_in: Callable[..., Member],
) -> None:
    """The group's member gets the card, the other tenant's administrator can give none; files, objects, measurements,
    jobs and accounts of one tenant are closed to the other."""
    ours, theirs, kind = tenants
    text, begin = secrets.token_hex(8), datetime.now(UTC)
    alice = log_in("tenants-alice", ours, administrator=True)
    bob, eve = log_in("tenants-bob", ours), log_in("tenants-eve", theirs, administrator=True)
    group = "/groups/two-tenants"
    card = {"members": [bob.user.name], "accelerators": {kind: 1}}
    try:
        given = alice.configuration("PUT", ours, group, card)
        assert given.status_code == 200, given.text
        only_administrators_write(ours, theirs, bob, eve, card)
        for member in (bob, eve):
            member.user.request_server(notebook(context))
        for member in (bob, eve):
            member.user.wait_for_server(120)
        resource = CATALOGUE[kind].resource
        assert cards(bob, resource) == 1
        assert cards(eve, resource) == 0
        if ours.quota.accelerators[kind] == 1:
            counts_together(context, kubectl, bob, alice, kind, notebook(context))
    finally:
        alice.configuration("DELETE", ours, group)
        eve.configuration("DELETE", theirs, f"/users/{bob.user.name}")

    attack = f"import io, sys; sys.stdin = io.StringIO({keyless(with_metadata(probes_of(context)))!r})\n{PROBE}"
    assert not wrong(NOTEBOOK, eve.run(context, attack))
    pods_are_apart(context, kubectl, bob, eve)
    buckets_are_apart(context, bob, eve, text)
    measurements_are_apart(context, bob, eve)
    with opened_queue(kubectl, ours.name) as queue:
        identity = f"{ours.name}.{bob.user.name}"
        queue.remove(identity, user=identity)  # of an interrupted run
        try:
            assert bob.run(context, WRITE.format(text=text, tenant=ours.name)) == {"from_bucket": text}
            submit = submission("/bin/cat", f"secret {text}", {"secret": text}, f"KEY={text}")
            submit += "print(json.dumps(job.cluster()))"
            cluster = str(bob.run(context, submit))
            nfs = address_of("nfs_server", context.site, context.cloud_outputs)
            schedd, collector = schedds(context.site)[ours.name].address, "htcondor-central-manager.htcondor.svc"
            spy = SPY.format(cluster=cluster, nfs=nfs, port=NFS, schedd=schedd, collector=collector)
            spied = eve.run(context, spy)
            assert spied["own queue"] == "[]"
            assert not [said for said in spied.values() if text in said]
            for closed in ("their port", "the collector's port"):
                assert spied[closed] in ("TimeoutError", "ConnectionRefusedError", "OSError"), spied
            for refused in ("their queue", "their jobs"):
                assert spied[refused] in ("OSError", "HTCondorException", "RuntimeError"), spied
            assert spied["shared"] == [theirs.name]
            assert (spied["files"], spied["retrieved"]) == ([], [])
            # OSError: no route to the host
            assert spied["nfs"] in ("TimeoutError", "ConnectionRefusedError", "OSError")
            assert spied["remove"] in ("0", "HTCondorException")
            assert spied["release"] in ("0", "HTCondorException")
            (job,) = queue.jobs(cluster)
            assert (job["Cmd"], job["Owner"]) == ("/bin/cat", identity), spied
        finally:
            queue.remove(identity, user=identity)
            bob.run(context, CLEAN.format(tenant=ours.name))
    accounts_are_apart(context, bob, eve, begin)
    energy_is_measured(context, kubectl)  # of bob's card too


CLEAN = """
import json, pathlib
for path in (pathlib.Path.home(), pathlib.Path("/shared", {tenant!r})):
    for file in path.glob("two-tenants*"):
        file.unlink()
print(json.dumps(None))
"""


def notebook(context: SiteContext) -> str:
    """A profile without cards that everybody may start."""
    settings = JUPYTERHUB.of(context.site)
    assert settings is not None
    return next(p.name for p in settings.profiles if not p.accelerators and not p.restricted)


def cards(member: Member, resource: str) -> int:
    """That the member's server has."""
    (pod,) = member.user.pods()
    return sum(int(c["resources"].get("limits", {}).get(resource, 0)) for c in pod["spec"]["containers"])


def only_administrators_write(ours: Tenant, theirs: Tenant, bob: Member, eve: Member, card: object) -> None:
    """A member of the tenant and the other tenant's administrator change nothing; the latter has no card to give."""
    for stranger in (bob, eve):
        for method, path in (("PUT", "/groups/two-tenants"), ("DELETE", "/groups/two-tenants"), ("GET", "")):
            assert stranger.configuration(method, ours, path, card).status_code == 403, (stranger.user.name, method)
    refused = eve.configuration("PUT", theirs, "/groups/two-tenants", card)
    assert refused.status_code == 400, refused.text
    assert "accelerators" in refused.json()["message"]
    # a configuration of theirs reaches no server of ours, whoever it names
    stolen = eve.configuration("PUT", theirs, f"/users/{bob.user.name}", {"accelerators": {}})
    assert stolen.status_code == 200, stolen.text


def pods_are_apart(context: SiteContext, kubectl: Callable[..., str], bob: Member, eve: Member) -> None:
    """A notebook connects neither to another tenant's notebook nor to its S3 server; who serves users does to both."""
    (pod,) = bob.user.pods()
    places = {"notebook": (pod["status"]["podIP"], NOTEBOOK_PORT)}
    label = f"--selector=strata.dev/bucket={bob.tenant.name}"
    namespace = f"--namespace={STORAGE_NAMESPACE.name}"
    (server,) = json.loads(kubectl("get", "pods", namespace, label, "--output=json"))["items"]
    (port,) = (p["containerPort"] for p in server["spec"]["containers"][0]["ports"] if p["name"] == "http")
    places["bucket"] = server["status"]["podIP"], port
    code = REACH.format(places=places)
    assert eve.run(context, code) == dict.fromkeys(places, "closed")
    hub = kubectl("exec", "--namespace=jupyterhub", "deployment/hub", "--container=hub", "--", "python3", "-c", code)
    assert json.loads(hub)["notebook"] == "open"


def buckets_are_apart(context: SiteContext, bob: Member, eve: Member, text: str) -> None:
    """Each reads one key with kubectl, and that key opens one bucket."""
    endpoint = s3_endpoint(context.site)
    assert endpoint is not None
    own, other = bob.bucket_key(context, bob.tenant), eve.bucket_key(context, eve.tenant)
    assert isinstance(own, dict), own
    assert isinstance(other, dict), other
    assert "Forbidden" in eve.bucket_key(context, bob.tenant)
    assert "Forbidden" in bob.bucket_key(context, eve.tenant)

    def asked(key: dict[str, str], method: str, path: str, data: bytes = b"") -> requests.Response:
        return s3_request(bob.user.http, endpoint, key, method, path, data)

    mine = f"{bob.tenant.name}/two-tenants.object"
    assert asked(own, "PUT", mine, text.encode()).status_code == 200
    assert asked(own, "GET", mine).text == text
    for method, path in (("GET", mine), ("PUT", mine), ("DELETE", mine), ("GET", f"{bob.tenant.name}/")):
        assert asked(other, method, path).status_code == 403, (method, path)
    listed = asked(other, "GET", f"{eve.tenant.name}/")
    assert listed.status_code == 200, listed.text
    assert "two-tenants" not in listed.text


def measurements_are_apart(context: SiteContext, bob: Member, eve: Member) -> None:
    """A row is the tenant's of the user who sent it, and only that tenant's members read it."""
    row = {"name": MEASUREMENT, "value": 0.25}
    assert bob.measurements(context, "POST", json=row).status_code == 201
    asked = {"name": f"eq.{MEASUREMENT}", "order": "id.desc", "limit": "1"}
    (measurement,) = bob.measurements(context, "GET", params=asked).json()
    assert (measurement["tenant"], measurement["username"]) == (bob.tenant.name, bob.user.name)
    assert eve.measurements(context, "GET", params={"tenant": f"eq.{bob.tenant.name}"}).json() == []
    assert eve.measurements(context, "POST", json={**row, "tenant": bob.tenant.name}).status_code == 403


def accounts_are_apart(context: SiteContext, bob: Member, eve: Member, begin: datetime) -> None:
    """`strata accounting --tenant` names the tenant's users only; the card is in one tenant's hours."""
    window = ("--from", begin.strftime("%Y-%m-%dT%H:%M"), "--tenant")
    for member, other in ((bob, eve), (eve, bob)):

        def asked(of: Member = member) -> dict[str, Any]:
            status, answer, error = strata_json(context, "accounting", *window, of.tenant.name)
            assert status == 0, error
            return answer

        def named(answer: dict[str, Any], of: Member = member) -> bool:
            return of.user.name in {row["username"] for row in answer["work"]}

        answer = settled(asked, named, RECORDED_SECONDS, pause=3)
        assert named(answer)
        assert other.user.name not in json.dumps(answer)
        (server,) = (r for r in answer["work"] if r["username"] == member.user.name and r["kind"] == "notebook")
        assert (server["card_hours"] > 0) == (member is bob)
