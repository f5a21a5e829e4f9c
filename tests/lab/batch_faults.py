"""Faults of batch jobs and of single-user servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from strata_bench.waiting import eventually
from strata_services.htcondor.queue import IDLE, Queue, opened_queue
from strata_services.jupyterhub.needs import NAMESPACE as HUB
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import PAGE_SECONDS, logged_in

from .alert_fault import NAME, Lab, Labels, lasting, pod
from .batch import jobs

USER = "alert-ada"
STARTS = 3


@contextmanager
def _idle_job(lab: Lab) -> Iterator[tuple[Queue, str, str]]:
    """The queue of the first tenant, a member of it, and the cluster of a job that matches no execution point."""
    tenant = lab.context.site.platform.tenants[0].name
    member = f"{tenant}.{USER}"
    with ExitStack() as stack:
        queue = stack.enter_context(opened_queue(lab.kubectl, tenant))
        stack.callback(queue.remove, member, user=member)
        cluster = queue.submit(member, jobs(64, 1, "arguments = -c true\nrequirements = false"))
        # what is spooled is held until its files are there
        eventually(lambda: queue.jobs(cluster)[0]["JobStatus"] == IDLE, 60, "the job's files are there")
        yield queue, member, cluster


def held_job(lab: Lab) -> Iterator[Labels]:
    """A member holds it before it runs."""
    with _idle_job(lab) as (queue, member, cluster):
        queue.run("condor_hold", cluster, user=member)
        yield {"tenant": queue.tenant}


def unmatched_job(lab: Lab) -> Iterator[Labels]:
    """Execution points are created for it, and end without a job."""
    with _idle_job(lab) as (queue, _, _):
        yield {"tenant": queue.tenant}


def job_beyond_the_quota(lab: Lab) -> Iterator[Labels]:
    """A pod that no node can run uses the CPUs of the tenant's quota."""
    tenant = lab.context.site.platform.tenants[0]

    def used() -> str:
        output = lab.kubectl("get", "resourcequota", tenant.name, f"--namespace={tenant.name}", "--output=json")
        return str(json.loads(output)["status"]["used"]["requests.cpu"])

    eventually(lambda: used() == "0", 120, f"the quota of {tenant.name} is not used")
    resources = {"limits": {"cpu": str(tenant.quota.cpu), "memory": "16Mi"}}
    selector = {"nodeSelector": {f"{NAME}/none": "true"}}
    waiting = pod(tenant.name, "true", spec=selector, container={"resources": resources})
    with lasting(waiting, lab), _idle_job(lab) as (queue, _, _):
        yield {"tenant": queue.tenant}


def failing_servers(lab: Lab) -> Iterator[Labels]:
    """Their namespace has a quota without pods."""
    settings = JUPYTERHUB.of(lab.context.site)
    assert settings is not None
    where = f"--namespace={HUB.name}"
    with ExitStack() as stack:
        user = logged_in(lab.context, USER, stack)
        stack.callback(lab.kubectl, "delete", "quota", NAME, where, "--ignore-not-found")
        lab.kubectl("create", "quota", NAME, where, "--hard=pods=0")
        for _ in range(STARTS):
            # the page of a start that has failed already is an error
            user.http.post(user.open_form(), data={"profile": settings.profiles[0].name}, timeout=PAGE_SECONDS)
        # there is no form before the last has failed
        user.open_form()
        yield {}
