"""lab-slurm comes up beside the lab: Slurm runs jobs on each node, survives the loss of its daemons, and goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.access.podman import podman
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.paths import SitePaths
from strata.site_file.inventories import find_site
from strata_bench.waiting import eventually

from .commands import strata, up
from .healing import kill
from .lab_site import require_lab
from .second_site import traces

pytestmark = pytest.mark.nightly
NAME = "lab-slurm"
DAEMONS = {"slurm_controller": "slurmctld", "slurm_node": "slurmd"}
HEALED_SECONDS = 120.0
JOBS = 6


@pytest.fixture(scope="module")
def site_file(context: SiteContext) -> Iterator[Path]:
    """The site of the repository, up; destroyed afterwards."""
    require_lab(context)
    file = find_site(NAME)
    try:
        up(file)
        yield file
    finally:
        if SitePaths(NAME).root.exists():
            gone = strata("destroy", file, "--yes")
            assert gone.returncode == 0, gone.stderr
        assert traces(NAME) == []


def test_verified_and_unchanged(site_file: Path) -> None:
    """Jobs run on every node, with cards where there are any, and a second run changes nothing."""
    verified = strata("verify", site_file)
    assert verified.returncode == 0, verified.stdout[-5000:]
    assert "slurm_runs_jobs_on_every_node" in verified.stdout
    assert up(site_file, "--thorough")["changed"] == 0


@pytest.mark.parametrize("role", DAEMONS)
def test_jobs_outlive_a_killed_daemon(role: str, site_file: Path) -> None:
    """Queued and running jobs end once, although the daemon that manages them was killed."""
    slurm = SiteContext.load(site_file)
    outputs = slurm.cloud_outputs
    assert outputs is not None
    controller = hosts_with("slurm_controller", slurm.site, outputs)[0].name

    def run(host: str, *command: str) -> str:
        return podman("exec", f"strata-{NAME}-{outputs.instances[host].id}", *command)

    submit = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=sleep 5")
    numbers = {run(controller, "runuser", "-u", "daemon", "--", *submit).strip() for _ in range(JOBS)}
    host = hosts_with(role, slurm.site, outputs)[0].name
    kill(lambda *command: run(host, *command), DAEMONS[role])

    def ended() -> list[str]:
        lines = run(controller, "cat", "/var/log/slurm/completed_jobs.log").splitlines()
        words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return [job["JobId"] for job in words if job["JobId"] in numbers and job["JobState"] == "COMPLETED"]

    eventually(lambda: len(ended()) >= JOBS, HEALED_SECONDS, f"{JOBS} jobs end")
    assert sorted(ended()) == sorted(numbers)
    status = strata("status", site_file, "--no-drift", "--json")
    assert status.returncode == 0, status.stdout
    assert all(row["found"] == row["wanted"] for row in json.loads(status.stdout)["objects"])
