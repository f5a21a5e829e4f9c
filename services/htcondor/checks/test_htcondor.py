"""HTCondor, as members of a tenant meet it: at the access point, with a token of theirs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from strata.verify.pods import Kubectl
from strata_services.htcondor.needs import EXECUTE_NAMESPACE, JOB_PRIORITY
from strata_services.htcondor.queue import COMPLETED, HELD, Queue, opened_queue
from strata_services.htcondor.service import SERVICE

if TYPE_CHECKING:
    from strata.models.site import Site
    from strata.site.context import SiteContext

pytestmark = pytest.mark.xdist_group("htcondor")  # long, so among the first
JOB_SECONDS = 400.0
"""Of a short job from its submission to its end, with a new execution point."""
SECRETS = "/condor/secrets/tokens/execute /secrets/tokens/execute /proc/1/environ"
JOB = """\
executable = /bin/sh
transfer_executable = false
arguments = "-c 'id -un; for f in {secrets}; do if cat $f; then echo leaked; fi; done 2>/dev/null; hostname; exit 0'"
request_cpus = 1
request_memory = 64
request_disk = 1M
output = out
should_transfer_files = YES
{more}
queue
"""


@pytest.fixture(scope="module")
def queue(context: SiteContext, kubectl: Kubectl) -> Iterator[Queue]:
    """The job queue of the first tenant."""
    site = context.site
    if SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    if not site.platform.tenants:
        pytest.skip("the site has no tenants")
    with opened_queue(kubectl, site.platform.tenants[0].name) as opened:
        yield opened


@pytest.fixture(scope="module")
def user(queue: Queue) -> str:
    """A member of the tenant, known to this check only."""
    return f"{queue.tenant}.strata-verify"


def submit(queue: Queue, user: str, more: str = "") -> str:
    """Submits the job; returns its cluster."""
    return queue.submit(user, JOB.format(secrets=SECRETS, more=more))


def test_the_pool_refuses_clients_without_its_tokens(queue: Queue, user: str) -> None:
    """The access point answers a member's token, and no client without one."""
    ping = ("condor_ping", "-type", "schedd", "-verbose", "WRITE")
    assert user in queue.run(*ping, user=user)
    without = ("env", "_CONDOR_SEC_TOKEN_DIRECTORY=/nonexistent", "sh", "-c", '"$@" 2>&1 || true', "sh")
    assert "Failed to authenticate using IDTOKENS" in queue.run(*without, *ping, user=user)


def test_a_job_runs_once_in_a_pod_of_its_own(queue: Queue, kubectl: Kubectl, user: str) -> None:
    """A member's job runs once, in a pod made for it with the batch priority, and reads no token of the pool."""
    cluster = submit(queue, user)
    try:
        points: dict[str, dict[str, Any]] = {}
        end = time.monotonic() + JOB_SECONDS
        while True:
            listed = json.loads(kubectl("get", "pods", "--namespace", EXECUTE_NAMESPACE.name, "--output", "json"))
            points |= {point["metadata"]["name"]: point for point in listed["items"]}
            (ad,) = queue.jobs(cluster)
            if ad["JobStatus"] == COMPLETED:
                break
            assert ad["JobStatus"] != HELD or ad.get("HoldReasonCode") == 16, ad.get("HoldReason")
            assert time.monotonic() < end, f"the job has the status {ad['JobStatus']} after {JOB_SECONDS:.0f} s"
            time.sleep(1)
        tenant, _, name = user.partition(".")
        assert (ad["AcctGroup"], ad["AcctGroupUser"], ad["NumJobStarts"], ad["ExitCode"]) == (tenant, name, 1, 0)
        queue.run("condor_transfer_data", cluster, user=user)
        account, host = queue.run("cat", "out").split()
        assert account == "slot1"
        pod = points[host]
        assert pod["spec"]["priorityClassName"] == JOB_PRIORITY.level
        assert pod["metadata"]["labels"]["strata.dev/tenant"] == tenant
    finally:
        queue.remove(cluster, user=user)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("universe = scheduler", "no DAGMan"),
        ("universe = local", "vanilla"),
        ('+TransferOutput = "/condor/secrets/keys/POOL"', "does not see your files"),
        ("request_cpus = 100000", "quota"),
        ("request_gpus = 1000", "quota"),
    ],
)
def test_jobs_that_the_pool_cannot_run_are_refused(queue: Queue, user: str, more: str, reason: str) -> None:
    """The access point refuses jobs that would run on itself or read its files, and jobs beyond the tenant's quota."""
    with pytest.raises(AssertionError, match=reason):
        submit(queue, user, more)


def test_another_tenants_members_see_no_jobs_and_submit_none(queue: Queue, site: Site) -> None:
    """The schedd of a tenant, the collector and the negotiator refuse members of other tenants."""
    others = [tenant.name for tenant in site.platform.tenants if tenant.name != queue.tenant]
    for eve in (f"{name}.eve" for name in (*others, "no-such-tenant")):
        with pytest.raises(AssertionError, match="DENIED"):
            queue.run("condor_q", "-all", user=eve)
        with pytest.raises(AssertionError, match="DENIED"):
            submit(queue, eve)
        with pytest.raises(AssertionError, match="DENIED"):
            queue.run("condor_status", "-any", user=eve)
        with pytest.raises(AssertionError, match="Can't locate negotiator"):
            queue.run("condor_userprio", "-allusers", user=eve)
