"""Parts of the services, and what they run on, are killed once under load: `strata status` names each while it is
down, it heals, and nothing is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from strata.access.podman import podman
from strata.catalogue.issuer import Issuer
from strata.catalogue.site_services import s3_endpoint
from strata.models.site import Site
from strata.observe.metrics import metrics_of
from strata.observe.workloads import STABLE
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata_bench.waiting import eventually
from strata_services.accounting.service import SERVICE as ACCOUNTING
from strata_services.htcondor.needs import EXECUTE_NAMESPACE
from strata_services.htcondor.queue import RUNNING, opened_queue
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import User, new_user
from strata_services.prometheus_server.service import SERVICE as PROMETHEUS

from .batch import execution_points
from .commands import accounted
from .healing import kill, up_again
from .lab_site import homes_volume, require_lab
from .load import HEALED_SECONDS, Load, Objects
from .service_parts import (
    HUB,
    ISSUER,
    METRICS,
    NEGOTIATOR,
    PROXY,
    SCHEDD,
    Hosts,
    Kubectl,
    Pods,
    signal_container,
    unhealthy,
)

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.nightly

USER = "fault-ada"
JOBS = 2


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext, site: Site) -> None:
    """Other sites are not ours to break."""
    require_lab(context)
    for service in (ACCOUNTING, HTCONDOR, JUPYTERHUB, PROMETHEUS):
        if service.of(site) is None:
            pytest.skip(f"site {site.name} has no platform.services.{service.key}")
    if not site.platform.tenants or s3_endpoint(site) is None:
        pytest.skip(f"site {site.name} has no tenants, or no object storage")


@pytest.fixture(scope="module")
def user(context: SiteContext, own_issuer: Issuer, kubectl: Kubectl) -> Iterator[User]:
    """A member of the first tenant, with a running server."""
    notebooks = JUPYTERHUB.of(context.site)
    assert notebooks is not None
    with new_user(context, kubectl, USER, context.site.platform.tenants[0].name) as (made, password):
        made.log_in(own_issuer, password)
        made.request_server(notebooks.profiles[0].name)
        made.wait_for_server(notebooks.start_seconds)
        yield made


@pytest.fixture(scope="module")
def load(context: SiteContext, user: User, kubectl: Kubectl, site_host: Hosts) -> Iterator[Load]:
    """Of the user."""
    site, tenant = context.site, context.site.platform.tenants[0].name
    storage = s3_endpoint(site)
    assert storage is not None
    host = user.hub.removeprefix("https://").rstrip("/")
    nfs_server = site_host(hosts_with("nfs_server", site, context.cloud_outputs)[0].name)
    with ExitStack() as stack:
        queue = stack.enter_context(opened_queue(kubectl, tenant))
        member = f"{tenant}.{USER}"
        queue.remove(member, user=member)  # of an interrupted run
        stack.callback(queue.remove, member, user=member)
        made = Load(
            context=context,
            http=user.http,
            server=Server(user.http, host, USER, user.token()),
            home=homes_volume(site) / USER,
            nfs_server=nfs_server,
            queue=queue,
            member=member,
            objects=Objects(context, storage, tenant, f"strata-fault-{user.token()[:8]}"),
        )
        stack.callback(nfs_server.run, f"rm -f '{made.home / made.name}'")
        stack.enter_context(made.objects.being_put(user.http))
        made.begin()
        yield made


def named_while_down(context: SiteContext, name: str) -> None:
    """The next look of `strata status` names an object, by the beginning of its name."""
    problems = unhealthy(context)
    assert any(problem.startswith(name) for problem in problems), problems


def healthy(context: SiteContext) -> bool:
    """Whether `strata status` finds nothing; fails with what it finds."""
    problems = unhealthy(context)
    assert not problems, problems
    return True


@pytest.mark.parametrize("part", [HUB, PROXY, ISSUER, SCHEDD, NEGOTIATOR], ids=lambda part: part.object)
def test_pod(part: Pods, context: SiteContext, load: Load, kubectl: Kubectl, site_host: Hosts) -> None:
    """Killed, and kept from starting again until `strata status` was seen."""
    load.submit(JOBS)
    part.signal(kubectl, site_host, "KILL")
    part.scale(kubectl, 0)
    try:
        named_while_down(context, part.object)
    finally:
        part.scale(kubectl, 1)
    eventually(lambda: healthy(context), HEALED_SECONDS, "the site is healthy again")
    load.nothing_lost()


def test_issuer_logs_in_again(own_issuer: Issuer, user: User) -> None:
    """Users and their passwords are as before."""
    page = user.http.get(f"{own_issuer.url}/.well-known/openid-configuration", timeout=60)
    assert page.status_code == 200, page.text


@pytest.mark.parametrize("daemon", ["condor_schedd", "condor_negotiator"])
def test_daemon_of_the_pool(daemon: str, load: Load, kubectl: Kubectl) -> None:
    """Its master starts it again within seconds."""
    part = SCHEDD if daemon == "condor_schedd" else NEGOTIATOR
    where = ("exec", f"--namespace={part.namespace}", f"{part.workload}", "--container=condor", "--")
    process = kubectl(*where, "pidof", daemon).strip()
    load.submit(JOBS)
    kubectl(*where, "sh", "-c", f"kill -9 {process}")
    eventually(lambda: kubectl(*where, "pidof", daemon).strip() not in ("", process), HEALED_SECONDS, f"{daemon} runs")
    load.nothing_lost()


def test_execution_point(load: Load, kubectl: Kubectl, site_host: Hosts) -> None:
    """Its job is idle again, runs on another one, and ends once."""
    load.submit(1)
    cluster = load.submitted[-1]
    (job,) = load.queue.jobs(cluster)
    assert job["JobStatus"] == RUNNING
    host = job["RemoteHost"].rpartition("@")[2]
    (point,) = (name for name in execution_points(kubectl) if host.startswith(name))
    place = ("get", "pod", point, f"--namespace={EXECUTE_NAMESPACE.name}", "--output=json")
    signal_container(json.loads(kubectl(*place)), "condor", site_host, "KILL")
    # its end is not reported to the access point, which waits as long as for one that it cannot reach
    longest = job["JobLeaseDuration"] + HEALED_SECONDS
    eventually(lambda: load.queue.jobs(cluster)[0]["NumShadowStarts"] >= 2, longest, "the job runs again")
    load.nothing_lost()


def test_prometheus(context: SiteContext, load: Load, kubectl: Kubectl, site_host: Hosts) -> None:
    """Hung, it is named; killed, it starts with the samples that it had."""
    source = metrics_of(context)
    assert source is not None
    samples = f'count_over_time(up{{job="apiserver"}}[5m] @ {time.time() - 60:.0f})'
    before = sum(sample.value for sample in source.query(samples))
    assert before
    load.submit(JOBS)
    METRICS.signal(kubectl, site_host, "STOP")
    try:
        named_while_down(context, "prometheus-server: Prometheus")
    finally:
        METRICS.signal(kubectl, site_host, "KILL")
    eventually(lambda: healthy(context), HEALED_SECONDS, "the site is healthy again")
    assert sum(sample.value for sample in source.query(samples)) == before
    eventually(lambda: bool(source.query('up{job="apiserver"} == 1')), HEALED_SECONDS, "new samples are stored")
    load.nothing_lost()


@pytest.mark.parametrize(
    ("role", "unit", "shown"),
    [("postgresql", "postgresql@15-main", "postgresql@"), ("nfs_server", "nfs-ganesha", "nfs-ganesha")],
)
def test_service_of_a_host(
    role: str, unit: str, shown: str, context: SiteContext, load: Load, site_host: Hosts
) -> None:
    """Killed in the middle of writes, and kept from starting again until `strata status` was seen."""
    name = hosts_with(role, context.site, context.cloud_outputs)[0].name
    run = site_host(name).check_output
    load.submit(JOBS)
    kill(lambda *command: str(run(" ".join(command))), unit)
    run(f"systemctl stop {unit}")
    try:
        named_while_down(context, f"{name}: {shown}")
    finally:
        run(f"systemctl start {unit}")
    eventually(lambda: healthy(context), HEALED_SECONDS, "the site is healthy again")
    load.nothing_lost()


def test_accounting_has_each_job_once(context: SiteContext, load: Load) -> None:
    """After all these faults."""
    load.submit(JOBS)
    load.nothing_lost()
    begin = datetime.now(UTC) - timedelta(hours=6)

    def tasks() -> int:
        rows = accounted(context, begin)["work"]
        return sum(row["tasks"] for row in rows if row["username"] == USER and row["level"] == "job")

    # the day's earlier runs of this test had the same user
    eventually(lambda: tasks() >= load.fetched, HEALED_SECONDS, "accounting has the jobs")


def test_node(context: SiteContext, load: Load, user: User, kubectl: Kubectl) -> None:
    """Last, because the notebook ends with its node: the user's next server has the file, and the job runs again.

    A node that is back within minutes starts the pod's container again, and the user finds the server running.
    """
    notebooks = JUPYTERHUB.of(context.site)
    assert notebooks is not None
    load.submit(JOBS)
    written = load.written()
    (pod,) = user.pods()
    node = pod["spec"]["nodeName"]
    assert context.cloud_outputs is not None
    podman("kill", "--signal=KILL", f"strata-{context.site.name}-{context.cloud_outputs.instances[node].id}")
    named_while_down(context, f"{node}: kubelet")
    # Nova compares power states every half minute
    eventually(lambda: f"instance {node}" in unhealthy(context), HEALED_SECONDS, "Nova says that it is down")
    up_again(context)
    # a container that was killed by a test before is one that restarts, until it has run for so long
    longest = HEALED_SECONDS + STABLE.total_seconds()
    eventually(lambda: healthy(context), longest, "the site is healthy again")
    if not any(pod["status"]["phase"] == "Running" for pod in user.pods()):
        user.request_server(notebooks.profiles[0].name)
    user.wait_for_server(notebooks.start_seconds + HEALED_SECONDS)
    exists = f"import pathlib; print((pathlib.Path.home() / {load.name!r}).exists())"
    assert load.server.run(context, exists) == "True\n"
    load.nothing_stored_is_lost(written)
