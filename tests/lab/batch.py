"""Jobs of the site's HTCondor, and the execution points that they have."""

from __future__ import annotations

import json
from collections.abc import Callable

from strata_services.htcondor.needs import EXECUTE_NAMESPACE

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


def jobs(memory: int, count: int, more: str) -> str:
    """A description of jobs.

    Args:
        memory: MiB of each.
        count: how many.
        more: lines of the description.
    """
    return JOB.format(memory=memory, more=more, count=count)


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
