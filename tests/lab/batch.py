"""Jobs of the site's HTCondor, and the execution points that they have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

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
_SUBMIT = """
import json, os, pathlib, tempfile, time, htcondor2
os.chdir(tempfile.mkdtemp())
for name, text in {files!r}.items():
    pathlib.Path(name).write_text(text)
token = pathlib.Path(os.environ["_CONDOR_SEC_TOKEN_DIRECTORY"], "token")
while not token.exists():
    time.sleep(0.2)
schedd = htcondor2.Schedd()
job = schedd.submit(htcondor2.Submit({description!r}), spool=True)
schedd.spool(job)
"""


def submission(
    executable: str, arguments: str, files: Mapping[str, str] | None = None, environment: str = "", cards: int = 0
) -> str:
    """What a user's notebook runs to submit a job without settings or a login.

    Spooled: the job stays in the queue when it has run, too.

    Args:
        executable: on the execution point.
        arguments: of it.
        files: name to text of those that the job takes with it.
        environment: of the job, NAME=VALUE.
        cards: that it requests.

    Returns:
        Python that leaves the variables `schedd` and `job`; the job's output goes to the file `out`.
    """
    description = {
        "executable": executable,
        "transfer_executable": "false",
        "arguments": arguments,
        **({"environment": environment} if environment else {}),
        **({"request_gpus": str(cards)} if cards else {}),
        "transfer_input_files": ",".join(files or ()),
        "output": "out",
        "should_transfer_files": "YES",
        "request_cpus": "1",
        "request_memory": "64MB",
        "request_disk": "1MB",
    }
    return _SUBMIT.format(files=dict(files or {}), description=description)


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
