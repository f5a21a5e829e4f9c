"""Forty jobs have the site over night; at nine three people open notebooks. docs/stories.md shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strata.catalogue.issuer import Issuer
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata_bench.waiting import eventually
from strata_services.accounting.service import SERVICE as ACCOUNTING
from strata_services.htcondor.needs import EXECUTE_NAMESPACE
from strata_services.htcondor.queue import COMPLETED, RUNNING, Queue, opened_queue
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import User, new_user

from .batch import execution_points, jobs
from .commands import accounted
from .full_site import MIB, reserved

pytestmark = pytest.mark.nightly

JOBS = 40
NAMES = ("night-ada", "night-bob", "night-carol")
JOB_MEMORY = 128
POINT_MEMORY = (JOB_MEMORY + 96) * MIB
"""With the daemons of an execution point; as many as notebooks come are evicted: each reserves more than half of it."""
NIGHT_SECONDS = 900.0
# a training: its first part writes a checkpoint; in its second, it runs until it is evicted; after that, it ends
BEGAN = "/tmp/second-part"  # noqa: S108  # of the execution point
TRAINING = (
    "arguments = \"-c 'if test -e saved; then if test -e marker; then touch " + BEGAN + "; exec sleep 7200; fi; "
    "else touch saved marker; exit 85; fi'\"\n"
    "checkpoint_exit_code = 85\ntransfer_checkpoint_files = saved"
)
SHORT = "arguments = \"-c 'sleep 1'\""


@pytest.fixture
def users(
    context: SiteContext, own_issuer: Issuer, kubectl: Callable[..., str], request: pytest.FixtureRequest
) -> Iterator[list[User]]:
    """Three members of the first tenant, with sessions."""
    site = context.site
    for service in (ACCOUNTING, HTCONDOR, JUPYTERHUB):
        if service.of(site) is None:
            pytest.skip(f"site {site.name} has no platform.services.{service.key}")
    if not site.platform.tenants or own_issuer.users is None:
        pytest.skip(f"site {site.name} has no tenants, or users of another issuer")
    with ExitStack() as stack:
        added = []
        for name in NAMES:
            user, password = stack.enter_context(new_user(context, kubectl, name, site.platform.tenants[0].name))
            user.log_in(own_issuer, password)
            added.append(user)
        yield added


def began(kubectl: Callable[..., str], points: dict[str, str]) -> bool:
    """Whether the training on each execution point is in its second part."""
    command = ("--container=condor", "--", "ls", BEGAN)
    where = f"--namespace={EXECUTE_NAMESPACE.name}"
    return all(BEGAN in kubectl("exec", where, point, *command, check=False).split() for point in points)


def finish(queue: Queue, user: str) -> list[dict[str, Any]]:
    """Evicts each training that no notebook evicted, and returns the jobs when all have ended."""
    still = "SuccessCheckpointExitCode =?= 85 && NumShadowStarts == 1 && JobStatus == 2"
    if any(
        j.get("SuccessCheckpointExitCode") == 85 and j["JobStatus"] == RUNNING and j["NumShadowStarts"] == 1
        for j in queue.jobs(user)
    ):
        queue.run("condor_vacate_job", "-constraint", still, user=user)
    eventually(lambda: all(j["JobStatus"] == COMPLETED for j in queue.jobs(user)), NIGHT_SECONDS, "all jobs have ended")
    return queue.jobs(user)


def test_night_and_morning(
    context: SiteContext, kubectl: Callable[..., str], images: ImageOutputs, users: list[User]
) -> None:
    """Each notebook runs, with a job's card too; evicted jobs resume and end once; accounting has these numbers."""
    site = context.site
    pool, notebooks, tenant = HTCONDOR.of(site), JUPYTERHUB.of(site), site.platform.tenants[0]
    assert pool is not None
    assert notebooks is not None
    with_card = next((p.name for p in notebooks.profiles if p.accelerators), None)
    if with_card is None or pool.accelerator is None:
        pytest.skip(f"site {site.name} has no cards for notebooks, or none for jobs")
    # accounting is asked by the minute, in which an earlier run may have ended
    begin = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    member = f"{tenant.name}.{NAMES[0]}"
    with ExitStack() as stack:
        queue = stack.enter_context(opened_queue(kubectl, tenant.name))
        queue.remove(member, user=member)  # of an interrupted run
        stack.callback(queue.remove, member, user=member)
        reservation = reserved(
            kubectl, images.images["pod-base"], pool.millicpus_per_cpu / 1000, POINT_MEMORY,
            pool.maximum_execution_points - 1,
        )  # fmt: skip
        points = stack.enter_context(reservation)
        assert points >= 2, "the nodes have no room for two execution points"

        # night
        time.sleep(max(0.0, (begin - datetime.now(UTC)).total_seconds()))
        queue.submit(member, jobs(JOB_MEMORY, 1, f"{TRAINING}\nrequest_gpus = 1"))
        queue.submit(member, jobs(JOB_MEMORY, points, TRAINING))
        eventually(
            lambda: len(running := execution_points(kubectl)) == points + 1 and began(kubectl, running),
            NIGHT_SECONDS,
            f"{points + 1} jobs run on execution points",
        )
        at_night = execution_points(kubectl)
        queue.submit(member, jobs(JOB_MEMORY, JOBS - points - 1, SHORT))

        # morning
        profiles = [with_card, notebooks.profiles[0].name, notebooks.profiles[0].name]
        seconds = {}
        for user, profile in zip(users, profiles, strict=True):
            started = time.monotonic()
            user.request_server(profile)
            user.wait_for_server(notebooks.start_seconds)
            seconds[user.name] = round(time.monotonic() - started, 1)
        print(f"{points + 1} execution points; seconds until each notebook ran: {seconds}")
        (card_node,) = {pod["spec"]["nodeName"] for pod in users[0].pods()}

        def evicted() -> set[str]:
            return set(at_night) - set(execution_points(kubectl))

        # the last notebook runs while the execution point that made room for it is still ending
        eventually(lambda: len(evicted()) >= len(users), 60, f"{len(users)} execution points were evicted")
        assert card_node in {at_night[point] for point in evicted()}

        # evening
        for user in users:
            user.stop()
        ended = finish(queue, member)
        assert len(ended) == JOBS
        assert {job["ExitCode"] for job in ended} == {0}
        trainings = [job for job in ended if job.get("SuccessCheckpointExitCode") == 85]
        assert len(trainings) == points + 1
        assert min(job["NumShadowStarts"] for job in trainings) >= 2
        eventually(
            lambda: has_numbers(accounted(context, begin), tenant.name, ended), 240, "accounting has these numbers"
        )


def has_numbers(answer: dict[str, Any], tenant: str, jobs: list[dict[str, Any]]) -> bool:
    """Fails where the answers to the three questions are others."""
    work = [row for row in answer["work"] if row["username"] in NAMES and row["tenant"] == tenant]
    (batch,) = (row for row in work if row["level"] == "job")
    assert batch["tasks"] == len(jobs)
    ran = sum(job["RemoteWallClockTime"] for job in jobs) / 3600
    with_card = sum(job["RemoteWallClockTime"] for job in jobs if job.get("RequestGPUs")) / 3600
    assert batch["hours"] == pytest.approx(ran, abs=len(jobs) / 3600), ran
    assert batch["card_hours"] == pytest.approx(with_card, abs=2 / 3600), with_card
    servers = {row["username"]: row for row in work if row["kind"] == "notebook"}
    assert {name: row["tasks"] for name, row in servers.items()} == dict.fromkeys(NAMES, 1)
    assert [name for name, row in servers.items() if row["card_hours"] > 0] == [NAMES[0]]
    held = [row for row in answer["allocation"] if row["level"] == "pod" and row["holder"] == tenant]
    assert sum(row["card_hours"] for row in held) >= servers[NAMES[0]]["card_hours"]
    used = [row for row in answer["utilisation"] if row["tenant"] == tenant]
    assert sum(row["card_hours"] for row in used) == pytest.approx(sum(row["card_hours"] for row in held), abs=0.01)
    return True
