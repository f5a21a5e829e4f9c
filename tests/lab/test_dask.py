"""Dask clusters of a member's notebook: they compute, and end with the notebook, when idle, and after kills."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from strata.catalogue.issuer import Issuer
from strata.site.context import SiteContext
from strata_bench.waiting import eventually
from strata_services.dask_gateway.needs import HOSTNAME, NAMESPACE
from strata_services.dask_gateway.service import SERVICE
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import PAGE_SECONDS, User, new_user

from .commands import up
from .editing import edit

pytestmark = pytest.mark.nightly
NAME = "dask-ada"
"""Always the same: JupyterHub keeps a record of each user who ever logged in."""
SETTINGS: dict[str, Any] = {"idle_seconds": 180, "millicpus_per_cpu": 100, "scheduler_memory": "512 MiB"}
START_SECONDS, END_SECONDS = 600.0, 180.0
CREATE = """
import json
from dask_gateway import Gateway
cluster = Gateway().new_cluster(worker_memory=0.25, shutdown_on_close=False)
cluster.scale(2)
client = cluster.get_client()
client.wait_for_workers(2)
squares = client.gather(client.map(lambda x: x * x, range(100)))
workers = client.scheduler_info()["workers"].values()
print(json.dumps({
    "sum": sum(squares), "workers": len(workers), "name": cluster.name, "dashboard": cluster.dashboard_link,
}))
"""
SECOND = """
import json
from dask_gateway import Gateway
try:
    Gateway().new_cluster()
    print(json.dumps("created"))
except ValueError as error:
    print(json.dumps(str(error)))
"""
STOP = """
from dask_gateway import Gateway
gateway = Gateway()
for cluster in gateway.list_clusters():
    gateway.stop_cluster(cluster.name)
"""


@dataclass(frozen=True)
class Member:
    """A member of the first tenant with a running server.

    Args:
        user: with a session at the hub.
        tenant: of the user.
        server: runs code in a kernel.
        context: of the site.
        kubectl: of the operator.
    """

    user: User
    tenant: str
    server: Server
    context: SiteContext
    kubectl: Callable[..., str]

    def run(self, code: str) -> Any:
        """What a new kernel of the server prints, as JSON."""
        text = self.server.run(self.context, code)
        return json.loads(text.strip().splitlines()[-1]) if text.strip() else None

    def objects(self, kinds: str = "pods,services,secrets") -> list[str]:
        """Of clusters, in the tenant's namespace."""
        selector = "--selector=gateway.dask.org/cluster"
        listed = self.kubectl("get", kinds, f"--namespace={self.tenant}", selector, "--output=name")
        return listed.split()

    def gone(self, what: str) -> None:
        """Waits until the tenant has no cluster any longer."""
        seconds = eventually(lambda: not self.objects(), END_SECONDS, f"{what}; {self.objects()}")
        print(f"{what}: gone after {seconds:.1f} s")


@pytest.fixture(scope="module")
def idle_seconds(context: SiteContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[float]:
    """Of the site's clusters; a lab without Dask clusters has them while the tests run."""
    own = SERVICE.of(context.site)
    if own is not None:
        yield own.idle_seconds
        return
    if not context.provider.owns_cloud or JUPYTERHUB.of(context.site) is None or not context.site.platform.tenants:
        pytest.skip(f"site {context.site.name} has no Dask clusters, and is not a lab with notebooks and tenants")

    def add(content: dict[str, Any]) -> None:
        content["platform"]["services"][SERVICE.key] = SETTINGS

    edited = edit(context, tmp_path_factory.mktemp("dask") / "site", add)
    try:
        up(edited)
        yield SETTINGS["idle_seconds"]
    finally:
        up(context.site_file, "--remove", f"namespace/{NAMESPACE.name}")


@pytest.fixture
def member(
    context: SiteContext, own_issuer: Issuer, kubectl: Callable[..., str], idle_seconds: float
) -> Iterator[Member]:
    """A member whose server runs, and who has no cluster."""
    site, settings = context.site, JUPYTERHUB.of(context.site)
    if settings is None or own_issuer.users is None:
        pytest.skip(f"site {site.name} has users of another issuer")
    tenant = site.platform.tenants[0].name
    with new_user(context, kubectl, NAME, tenant) as (user, password), ExitStack() as stack:
        user.log_in(own_issuer, password)
        user.request_server(settings.profiles[0].name)
        user.wait_for_server(START_SECONDS)
        host = urlsplit(user.hub).netloc
        created = Member(user, tenant, Server(user.http, host, NAME, user.token()), context, kubectl)
        stack.callback(lambda: kubectl("delete", "daskclusters", f"--namespace={tenant}", "--all", "--wait=false"))
        yield created


def test_a_cluster_computes_and_ends_with_its_notebook(member: Member) -> None:
    """Two workers in the tenant's namespace; the dashboard; one cluster per user; nothing is left."""
    made = member.run(CREATE)
    assert (made["sum"], made["workers"]) == (328350, 2)
    assert made["name"].partition(".")[0] == member.tenant
    pods = json.loads(
        member.kubectl(
            "get", "pods", f"--namespace={member.tenant}", "--selector=gateway.dask.org/cluster", "--output=json"
        )
    )["items"]
    (notebook,) = member.user.pods()
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert images == {notebook["spec"]["containers"][0]["image"]}
    assert {pod["metadata"]["annotations"]["hub.jupyter.org/username"] for pod in pods} == {NAME}
    assert made["dashboard"].startswith(f"https://{HOSTNAME.host(member.context.site)}/clusters/")
    page = member.user.http.get(made["dashboard"], timeout=PAGE_SECONDS)
    assert page.status_code == 200
    assert "Dask" in page.text
    assert "may have" in member.run(SECOND)
    member.user.stop()
    member.gone("the cluster of a stopped notebook")


def test_a_cluster_that_its_user_stops_leaves_nothing(member: Member) -> None:
    """Also the records of it are deleted, later."""
    member.run(CREATE)
    member.run(STOP)
    member.gone("a stopped cluster")


def test_a_killed_gateway_and_a_killed_controller_leave_no_orphans(member: Member) -> None:
    """The notebook ends while both are down."""
    member.run(CREATE)
    down = ("delete", "pods", f"--namespace={NAMESPACE.name}", "--all", "--grace-period=0", "--force", "--wait=false")
    member.kubectl(*down)
    member.user.stop()
    member.kubectl(*down)
    member.gone("the cluster of a notebook that ended while the gateway was down")


def test_an_idle_cluster_ends(member: Member, idle_seconds: float) -> None:
    """After idle_seconds without a task; the notebook runs on."""
    if idle_seconds > 300:
        pytest.skip(f"idle_seconds is {idle_seconds} s at site {member.context.site.name}")
    member.run(CREATE)
    seconds = eventually(lambda: not member.objects(), idle_seconds * 2 + END_SECONDS, "an idle cluster ends")
    print(f"idle cluster: gone after {seconds:.1f} s")
    assert member.user.pods()
