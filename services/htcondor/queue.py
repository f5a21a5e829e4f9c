"""HTCondor's commands on the access point, by kubectl: as the pool's administrator, and as members of tenants."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from strata_services.htcondor.needs import NAMESPACE

IDLE, RUNNING, REMOVED, COMPLETED, HELD = 1, 2, 3, 4, 5
"""JobStatus."""
POD = ("exec", f"--namespace={NAMESPACE.name}", "htcondor-access-point-0", "--container=condor")
DESCRIPTION = "job.sub"


@dataclass(frozen=True)
class Queue:
    """The job queue of a tenant.

    Args:
        kubectl: of the operator; raises where a command fails.
        tenant: its name.
        directory: in the access point's container, where commands run.
    """

    kubectl: Callable[..., str]
    tenant: str
    directory: str

    def run(self, *command: str, user: str = "") -> str:
        """Output of a command at the tenant's schedd: with the token of `TENANT.USER`, or the pool's without."""
        # without standard input: one that ends at once may be left open, and a reader waits forever
        script = f'mkdir -p {self.directory} && cd {self.directory} && exec "$@"'
        where = ("sh", "-c", script, "sh", "env", f"_CONDOR_STRATA_TENANT={self.tenant}")
        return self.kubectl(*POD, "--", *where, *(("condor-as", user) if user else ()), *command)

    def submit(self, user: str, description: str) -> str:
        """Submits jobs as `condor_submit -spool` does; returns the cluster."""
        script = f"mkdir -p {self.directory} && cat >{self.directory}/{DESCRIPTION}"
        self.kubectl(*POD, "--stdin", "--", "sh", "-c", script, input=description)
        printed = self.run("condor_submit", "-terse", "-spool", DESCRIPTION, user=user)
        return printed.strip().splitlines()[-1].partition(".")[0]

    def jobs(self, *constraint: str) -> list[dict[str, Any]]:
        """ClassAds of the jobs in the queue, those that wait to be fetched too.

        Args:
            constraint: as of condor_q: a cluster, `TENANT.USER`, or none for all.
        """
        listed: list[dict[str, Any]] = json.loads(self.run("condor_q", "-all", *constraint, "-json") or "[]")
        return listed

    def remove(self, *constraint: str, user: str) -> None:
        """Removes the user's jobs, finished ones included; none is not an error."""
        if self.jobs(*constraint):
            self.run("condor_rm", *constraint, user=user)


@contextmanager
def opened_queue(kubectl: Callable[..., str], tenant: str) -> Iterator[Queue]:
    """The queue of a tenant, with a directory that is removed at the end."""
    directory = f"/tmp/queue-{uuid.uuid4().hex[:8]}"  # noqa: S108  # of the container
    try:
        yield Queue(kubectl, tenant, directory)
    finally:
        kubectl(*POD, "--", "rm", "-rf", directory)
