"""A pool of the image's own daemons with the chart's configuration, in two containers without a network."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.access.podman import exists, podman
from strata.images.build import LOCAL_PREFIX
from strata.images.filesystem_build import ensure_pod_bases
from strata.images.oci_layout import ensure_oci_layout
from strata.images.pod_images import folder_image
from strata.progress import Silent
from strata.retry import wait_until
from strata_services.htcondor.needs import EXECUTE, SCOPES, USER_ID
from strata_services.htcondor.service import SERVICE
from strata_services.htcondor.tokens import idtoken
from strata_services.htcondor.values import OWN_IMAGE

DOMAIN = "lab.strata.test"
TENANTS = ("research", "ml-team")
"""Of the schedds, in the order of the site."""
KEY = "signing-key-of-the-test"
SECONDS = 180.0
"""For whatever the pool does in seconds on an idle machine."""
COMPLETED, HELD = 4, 5
LIMITS = ("--ulimit=nofile=20000:20000", "--ulimit=nproc=20000:20000")
LOOPBACK = {
    "CONDOR_HOST": "127.0.0.1",
    "COLLECTOR_HOST": "127.0.0.1:9618",
    "NETWORK_INTERFACE": "127.0.0.1",
    "FULL_HOSTNAME": "localhost",
    # of what the master does daily
    "PREEN_INTERVAL": "1",
}
PROGRAMS = "/opt/condor"
"""The daemons of an execution point, in any image."""
ANOTHER = "debian"
GROUP = 20001
"""Of the tenant's folder."""
RIGHTS = ("--cap-drop=all", "--cap-add=CHOWN,DAC_OVERRIDE,FOWNER,KILL,SETGID,SETUID")
"""Of an execution point, as the chart's."""


def another_image() -> str:
    """A Debian with another C library and without HTCondor and its users."""
    return ensure_pod_bases(["12"], Silent())["12"].reference


def image() -> str:
    """The image as `strata up` builds it."""
    source = folder_image(SERVICE.name, SERVICE.folder, {}, ensure_pod_bases(["13"], Silent()))
    content = source.content_hash()
    layout, reference = ensure_oci_layout(source, content, Silent()), f"{LOCAL_PREFIX}/{SERVICE.name}:{content}"
    return reference if exists("image", reference) else podman("pull", "--quiet", f"oci:{layout}").strip()


@dataclass(frozen=True)
class RealPool:
    """The pool; commands run in the container of the central manager and the access point.

    Args:
        container: its name.
        evict: replaces the execution point by another; `evict("debian")` by one of another image.
        points: name of the container of the execution point.
    """

    container: str
    evict: Callable[..., None]
    points: Sequence[str]

    def run(
        self, *command: str, user: str = "", at: str = "", files: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Exit status and output of a command in /tmp/work with the files, as a member or as the pool itself.

        Args:
            command: of HTCondor.
            user: TENANT.USER; empty: the pool.
            at: tenant of the schedd; empty: the user's, or the first.
            files: name to text.
        """
        script = "".join(f"cat >{name} <<'END'\n{text}\nEND\n" for name, text in (files or {}).items())
        tenant = at or user.partition(".")[0] or TENANTS[0]
        prefix = ("env", f"_CONDOR_STRATA_TENANT={tenant}", *(("condor-as", user) if user else ()))
        shell = f'mkdir -p /tmp/work && cd /tmp/work\n{script}"$@" 2>&1'
        line = ["podman", "exec", self.container, "sh", "-c", shell, "sh", *prefix, *command]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=SECONDS)
        return done.returncode, done.stdout + done.stderr

    def output(self, *command: str, **options: Any) -> str:
        """Output of a command that must succeed."""
        status, text = self.run(*command, **options)
        assert status == 0, text
        return text

    def submit(self, description: str, user: str = "research.ada", *options: str, **files: str) -> str:
        """Submits a job; returns its cluster."""
        given = {"job.sub": f"{JOB}{description}\nqueue", **files}
        printed = self.output(
            "condor_submit",
            "-terse",
            *(options or ("-spool",)),
            "job.sub",
            user=user,
            files=given,
        )
        return printed.strip().splitlines()[-1].partition(".")[0]

    def ad(self, cluster: str, *attributes: str, at: str = "") -> list[str]:
        """Attributes of a job in the queue of a tenant; none where it is gone."""
        return self.output("condor_q", "-all", cluster, "-af:t", *attributes, at=at).rstrip("\n").split("\t")

    def until(self, cluster: str, status: int) -> None:
        """Waits for a status of a job."""

        def waiting() -> str | None:
            values = self.ad(cluster, "JobStatus", "HoldReason")
            return None if values[0] == str(status) else f"status {status} of job {cluster}, which has {values}"

        said = wait_until(waiting, SECONDS)
        assert said is None, said

    def until_exists(self, file: str) -> None:
        """Waits for a file that a job writes outside of its directory."""
        test = ["podman", "exec", self.points[0], "test", "-e", file]
        said = wait_until(lambda: file if subprocess.run(test, check=False).returncode else None, SECONDS)
        assert said is None, said


JOB = """\
executable = /bin/sh
transfer_executable = false
should_transfer_files = YES
request_cpus = 1
request_memory = 64
request_disk = 1M
"""


def _files(directory: Path, content: Mapping[str, str]) -> Path:
    for name, text in content.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)
    return directory


def _configuration(objects: Sequence[Mapping[str, Any]], *parts: str) -> dict[str, str]:
    names = [f"htcondor-{part}" for part in parts]
    config_maps = (o["data"] for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] in names)
    return {name: text for data in config_maps for name, text in data.items()}


def _init_container(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """The command that prepares an execution point's pod."""
    job = json.loads(_configuration(objects, "provisioner")["job.json"])
    (programs,) = job["spec"]["template"]["spec"]["initContainers"]
    return [*programs["command"], *programs["args"]]


@contextmanager
def running(objects: Sequence[Mapping[str, Any]], directory: Path) -> Iterator[RealPool]:
    """Runs the pool.

    Args:
        objects: the chart's.
        directory: for configuration and secrets.
    """
    name, own = f"strata-test-htcondor-{uuid.uuid4().hex[:8]}", image()
    points: list[str] = []

    def start(container: str, part: str, *options: str, command: Sequence[str] = (own,), **settings: str) -> None:
        folders = (
            f"--volume={directory}/{part}:/etc/condor/config.d:ro",
            f"--volume={directory}/{part}-secrets:/secrets:ro",
        )
        given = (f"--env=_CONDOR_{key}={value}" for key, value in {**LOOPBACK, **settings}.items())
        podman(
            "run",
            "--detach",
            "--rm",
            f"--name={container}",
            *LIMITS,
            "--tmpfs=/condor:mode=1777",
            *folders,
            *given,
            *options,
            *command,
        )

    def execution_point(named: str = OWN_IMAGE) -> None:
        for old in points:
            podman("stop", "--time=10", old)
        points[:] = [f"{name}-{uuid.uuid4().hex[:4]}"]
        settings = {"NUM_CPUS": "1", "MEMORY": "128", "STRATA_TENANT": "research", "SHARED_PORT_PORT": "9619"}
        programs = (f"{directory}/programs/etc/{file}:/etc/{file}:ro" for file in ("passwd", "group"))
        start(
            points[0],
            "execute",
            f"--network=container:{name}",
            "--user=0:0",
            *RIGHTS,
            "--read-only",
            "--tmpfs=/tmp:mode=1777",
            "--env=FROM_THE_IMAGE=1",
            f"--env=CONDOR_CONFIG={PROGRAMS}/etc/condor_config",
            f"--volume={directory}/programs:{PROGRAMS}:ro",
            f"--volume={directory}/shared:/shared/research",
            *(f"--volume={program}" for program in programs),
            f"--entrypoint={PROGRAMS}/bin/condor-entrypoint",
            command=(images[named], f"{PROGRAMS}/sbin/condor_master", "-f"),
            STRATA_IMAGE=named,
            **settings,
        )

    token = idtoken(KEY, f"{EXECUTE}@{DOMAIN}", DOMAIN, SCOPES[EXECUTE])
    daemons = _configuration(objects, "central-manager", "access-point")
    # one container has both: the collector knows of execution points
    daemons["30-collector.conf"] = "COLLECTOR.ALLOW_ADVERTISE_STARTD = $(STRATA_DAEMONS) $(STRATA_EXECUTE)\n"
    daemons["30-collector.conf"] += "COLLECTOR.ALLOW_ADVERTISE_MASTER = $(STRATA_DAEMONS) $(STRATA_EXECUTE)\n"
    _files(directory / "daemons", daemons)
    _files(directory / "daemons-secrets", {"keys/POOL": KEY})
    _files(directory / "execute", _configuration(objects, "execution-point"))
    _files(directory / "execute-secrets", {"tokens/execute": token})
    images = {OWN_IMAGE: own, ANOTHER: another_image()}
    (directory / "programs").mkdir()
    (directory / "shared").mkdir()
    os.chown(directory / "shared", 0, GROUP)
    (directory / "shared").chmod(0o2770)
    mounts = ("--network=none", "--user=0:0", f"--volume={directory}/programs:/programs", f"--env=TENANT_GROUP={GROUP}")
    shell, *command = _init_container(objects)
    podman("run", "--rm", *LIMITS, *mounts, f"--entrypoint={shell}", own, *command)
    daemon_list = "MASTER COLLECTOR NEGOTIATOR SCHEDD_0 SCHEDD_1"
    # the access point's init container, and its pod's
    begin = ("sh", "-c", "python3 -m strata_condor divide && exec condor_master -f")
    unprivileged = (f"--user={USER_ID}:{USER_ID}", "--cap-drop=all", f"--env=STRATA_TENANTS={','.join(TENANTS)}")
    try:
        start(name, "daemons", "--network=none", *unprivileged, command=(own, *begin), DAEMON_LIST=daemon_list)
        execution_point()
        pool = RealPool(name, execution_point, points)

        def waiting() -> str | None:
            text = pool.run("condor_status", "-any", "-af", "MyType")[1]
            missing = {"Machine", "Negotiator"} - set(text.split())
            missing |= {"Scheduler"} if text.split().count("Scheduler") < len(TENANTS) else set()
            return f"{', '.join(sorted(missing))} of the pool: {text[-500:]}" if missing else None

        said = wait_until(waiting, SECONDS)
        assert said is None, said
        yield pool
    finally:
        for container in (*points, name):
            podman("rm", "--force", "--ignore", "--time=0", container)
