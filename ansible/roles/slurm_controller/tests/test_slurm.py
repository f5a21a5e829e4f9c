"""What the Slurm roles write, read by Debian's Slurm: a booted node image runs jobs and serves the REST API."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.access.podman import podman
from strata.progress import Silent
from strata.retry import wait_until
from strata_bench.node_container import BOOTED
from strata_lab.controller import BOOT
from strata_lab.images import ensure_node_image

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("podman") is None, reason="needs podman and root"),
]
RENDER = Path(__file__).parent / "render.py"
HOST = "slurm-1"
ADDRESS = "198.51.100.10"
"""On the loopback interface; a host without any address resolves none, not even numeric ones."""
SITE = f"""
name: metal
domain: metal.strata.test
access: {{ssh: [192.0.2.1/32]}}
hosts:
  machines:
    - name: {HOST}
      address: {ADDRESS}
      roles: [slurm_controller, slurm_node]
      cpus: 2
      memory: 1 GiB
      accelerators: {{v100: 2}}
  slurm:
    partitions:
      - {{name: batch, default_minutes: 5, maximum_minutes: 60}}
      - {{name: gpu, accelerator: v100, maximum_hosts: 1}}
"""
API = {"12": "v0.0.38", "13": "v0.0.42"}
USER = "daemon"


class Slurm:
    """A container that is a whole Slurm cluster.

    Args:
        name: of the container.
        release: of Debian.
    """

    def __init__(self, name: str, release: str) -> None:
        self.name = name
        self.url = f"https://localhost:6820/slurm/{API[release]}"

    def run(self, script: str) -> str:
        """Output of a shell script, standard error behind it."""
        done = subprocess.run(
            ["podman", "exec", "--interactive", self.name, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout + done.stderr

    def request(self, path: str, token: str = "", user: str = USER, more: str = "") -> str:
        """Body of an answer, and its status at the end."""
        headers = f"-H X-SLURM-USER-NAME:{user} -H X-SLURM-USER-TOKEN:{token}" if token else ""
        return self.run(f"curl -sS --cacert /etc/ca.pem -w ' %{{http_code}}' {headers} {more} {self.url}/{path}")

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds."""
        waiting = wait_until(lambda: None if condition() else "Slurm", 120)
        assert waiting is None, self.run("journalctl --no-pager --lines=60 --unit='slurm*' --unit='stunnel*'")

    def token(self) -> str:
        """A token of a user for a minute."""
        return self.run(f"scontrol token username={USER} lifespan=60").strip().removeprefix("SLURM_JWT=")


def render(directory: Path, release: str) -> list[dict[str, str]]:
    """The files of the host."""
    done = subprocess.run(
        [sys.executable, str(RENDER), str(directory / "site.yaml"), HOST, release],
        env=os.environ | {"STRATA_STATE_DIR": str(directory / "state")},
        capture_output=True,
        text=True,
        check=True,
    )
    files: list[dict[str, str]] = json.loads(done.stdout)
    return files


def archive(files: list[dict[str, str]]) -> bytes:
    """Files with their owners and modes, as tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in files:
            content, entry = file["content"].encode(), tarfile.TarInfo(file["path"].lstrip("/"))
            entry.size, entry.mode = len(content), int(file.get("mode", "0644"), 8)
            entry.uname, entry.gname = file.get("owner", "root"), file.get("group", "root")
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module", params=["12", "13"])
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A host with both roles, started as systemd starts it."""
    release, directory = request.param, tmp_path_factory.mktemp("slurm")
    (directory / "site.yaml").write_text(SITE)
    files = render(directory, release)
    assert render(directory, release) == files, "a second rendering differs"
    pem = next(file["content"] for file in files if file["path"] == "/etc/stunnel/slurmrestd.pem")
    files.append({"path": "/etc/ca.pem", "content": pem})
    name = f"slurm-{secrets.token_hex(3)}"
    try:
        podman(
            *("run", "--detach", "--name", name, "--hostname", HOST, "--network", "none", *BOOT),
            ensure_node_image(release, Silent()),
        )
        container = Slurm(name, release)
        container.run(BOOTED)
        unpack = ["podman", "exec", "--interactive", name, "tar", "--extract", "--directory=/"]
        subprocess.run(unpack, input=archive(files), check=True)
        # what the role slurm_common does where cards are simulated
        container.run("mkdir /var/lib/slurm/cards; ln -s /dev/null /var/lib/slurm/cards/nvidia0")
        container.run("ln -s /dev/null /var/lib/slurm/cards/nvidia1")
        container.run(f"ip address add {ADDRESS}/32 dev lo; systemctl daemon-reload; systemctl restart munge slurmctld")
        container.run("systemctl restart slurmd slurmrestd stunnel@slurmrestd")
        container.wait(lambda: "is UP" in container.run("scontrol ping"))
        container.wait(lambda: container.request("ping").endswith(" 401"))
        yield container
    finally:
        podman("rm", "--force", "--volumes", "--time", "0", "--ignore", name)


def test_a_job_gets_a_card_and_is_in_the_log_when_it_is_complete(slurm: Slurm) -> None:
    submit = f"runuser -u {USER} -- sbatch --chdir=/tmp --wait --gres=gpu:v100:1 --output=/tmp/job.txt"
    printed = slurm.run(f"{submit} --wrap 'id -un; echo card $CUDA_VISIBLE_DEVICES'")
    assert "Submitted batch job" in printed, printed + slurm.run("journalctl -u slurmctld -u slurmd")
    assert slurm.run("cat /tmp/job.txt").split() == [USER, "card", "0"]
    number = printed.split()[-1]
    # slurmctld writes the line when the node has cleaned up, sbatch may end before
    line = f"grep 'JobId={number} .*JobState=COMPLETED' /var/log/slurm/completed_jobs.log"
    slurm.wait(lambda: bool(slurm.run(line)))


def test_slurm_reads_the_configuration(slurm: Slurm) -> None:
    node = slurm.run(f"scontrol show node {HOST}")
    assert "CPUTot=2 " in node
    assert "RealMemory=921 " in node, "90 % of 1 GiB"
    assert "Gres=gpu:v100:2" in node
    batch = slurm.run("scontrol show partition batch")
    assert "DefaultTime=00:05:00" in batch
    assert "MaxTime=01:00:00" in batch
    assert "Default=YES" in batch
    assert "MaxNodes=1 " in slurm.run("scontrol show partition gpu")
    configuration = slurm.run("scontrol show config")
    assert "ClusterName             = metal" in configuration
    assert slurm.run("slurmd -C").startswith(f"NodeName={HOST} CPUs=")


def test_a_job_beyond_the_limits_or_of_root_is_refused(slurm: Slurm) -> None:
    assert "Invalid user id" in slurm.run("sbatch --wrap true")
    submit = f"runuser -u {USER} -- sbatch --chdir=/tmp --wrap true"
    assert "node configuration is not available" in slurm.run(f"{submit} --gres=gpu:v100:3")
    assert "Requested time limit is invalid" in slurm.run(f"{submit} --time=61")


def test_the_rest_api_requires_the_token_of_the_user(slurm: Slurm) -> None:
    token = slurm.token()
    assert slurm.request("ping", token).endswith(" 200")
    assert slurm.request("jobs").endswith(" 401")
    assert not slurm.request("jobs", token, "root").endswith(" 200"), "the token is another user's"
    forged = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    assert not slurm.request("jobs", forged).endswith(" 200")
    assert slurm.run("curl -sS http://localhost:6820/").startswith("curl: "), "without TLS"


def test_a_job_comes_in_by_the_rest_api(slurm: Slurm) -> None:
    path = "PATH=/usr/bin:/bin"
    environment = path.split("=") if slurm.url.endswith("v0.0.38") else [path]
    job = {
        "script": "#!/bin/sh\nid -un >/tmp/rest.txt\n",
        "job": {
            "name": "rest",
            "partition": "batch",
            "current_working_directory": "/tmp",  # noqa: S108  # in the container
            "environment": dict([environment]) if len(environment) == 2 else environment,
        },
    }
    slurm.run(f"cat >/tmp/job.json <<'END'\n{json.dumps(job)}\nEND")
    body = "--json @/tmp/job.json"
    answer = slurm.request("job/submit", slurm.token(), more=body)
    assert answer.endswith(" 200"), answer
    slurm.wait(lambda: slurm.run("cat /tmp/rest.txt") == f"{USER}\n")


def test_keys_are_readable_by_their_daemons_only(slurm: Slurm) -> None:
    listed = slurm.run("stat -c '%U %a' /etc/munge/munge.key /etc/slurm/jwt_hs256.key /etc/stunnel/slurmrestd.pem")
    assert listed.split("\n")[:3] == ["munge 400", "slurm 400", "root 400"]
