"""A member at the access point of the site's HTCondor."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strata_services.htcondor.needs import EXECUTE_NAMESPACE, NAMESPACE

COMPLETED, RUNNING = 4, 2
JOB = """\
executable = /bin/sh
transfer_executable = false
should_transfer_files = YES
request_cpus = 1
request_memory = {memory}
request_disk = 1M
{more}
queue {count}
"""


@dataclass(frozen=True)
class Member:
    """A member.

    Args:
        kubectl: of the operator.
        identity: TENANT.USER.
        access_point: name of the schedd.
    """

    kubectl: Callable[..., str]
    identity: str
    access_point: str

    def run(self, *command: str, text: str = "") -> str:
        """Output of a command with the member's token, on the access point."""
        pod = ("exec", f"--namespace={NAMESPACE.name}", "htcondor-access-point-0", "--container=condor")
        # no standard input without text: one that ends at once may be left open, and a reader waits forever
        read, stdin = ("cat >job.sub && ", ("--stdin",)) if text else ("", ())
        script = f'd=$(mktemp -d) && cd "$d" && {read}"$@"; status=$?; rm -rf "$d"; exit $status'
        command = ("sh", "-c", script, "sh", "condor-as", self.identity, *command)
        return self.kubectl(*pod, *stdin, "--", *command, input=text or None)

    def submit(self, memory: int, count: int, more: str) -> None:
        """Submits jobs.

        Args:
            memory: MiB of each.
            count: how many.
            more: lines of the description.
        """
        text = JOB.format(memory=memory, more=more, count=count)
        self.run("condor_submit", "-terse", "-spool", "-name", self.access_point, "job.sub", text=text)

    def jobs(self) -> list[dict[str, Any]]:
        """The member's jobs in the queue: those that wait to be fetched too."""
        found: list[dict[str, Any]] = json.loads(self.run("condor_q", self.identity, "-json") or "[]")
        return found

    def remove_jobs(self) -> None:
        """Removes all, finished ones included."""
        if self.jobs():
            self.run("condor_rm", "-name", self.access_point, self.identity)


def execution_points(kubectl: Callable[..., str]) -> dict[str, str]:
    """Node of each execution point that has one and is not being deleted, by the name of its pod."""
    listed = json.loads(kubectl("get", "pods", f"--namespace={EXECUTE_NAMESPACE.name}", "--output=json"))["items"]
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in listed
        if pod["spec"].get("nodeName")
        and pod["status"]["phase"] in ("Pending", "Running")
        and "deletionTimestamp" not in pod["metadata"]
    }
