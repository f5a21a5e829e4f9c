"""Slurm as its users see it: jobs from the controller run on the node."""

from __future__ import annotations

import testinfra

HEAD = testinfra.get_host("podman://strata-molecule-slurm-head-1")
NODE = testinfra.get_host("podman://strata-molecule-slurm-node-1")
SUBMIT = "runuser -u ada -- timeout 120 sbatch --wait --parsable --chdir=/tmp"


def test_a_job_runs_on_the_node_with_both_cards() -> None:
    HEAD.check_output(f"{SUBMIT} --gres=gpu:v100:2 --output=/tmp/job.txt --wrap 'echo $USER $CUDA_VISIBLE_DEVICES'")
    assert NODE.check_output("cat /tmp/job.txt") == "ada 0,1"


def test_srun_reaches_the_controller_from_the_node() -> None:
    assert HEAD.check_output("runuser -u ada -- timeout 120 srun --chdir=/tmp hostname") == "node-1"


def test_the_rest_api_is_reachable_by_its_name_and_requires_a_token() -> None:
    url = "https://slurm.molecule-slurm.strata.test:6820/slurm/v0.0.38/jobs"
    assert NODE.check_output(f"curl -sS -o /dev/null -w '%{{http_code}}' {url}") == "401"


def test_the_units_start_at_boot() -> None:
    of_head, of_node = ("munge", "slurmctld", "slurmrestd", "stunnel@slurmrestd"), ("munge", "slurmd")
    for service in (*map(HEAD.service, of_head), *map(NODE.service, of_node)):
        assert service.is_running, service
        assert service.is_enabled, service
