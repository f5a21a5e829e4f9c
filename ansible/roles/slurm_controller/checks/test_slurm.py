"""Slurm: jobs on every node, and the REST API that requires a token."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from strata.models.site import Site
from strata.roles import port
from strata.site.host_list import Host as SiteHost
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs
from strata.verify.needs import needs, role
from strata_roles.slurm_controller.nodes import partition_hosts, partitions, slurm_nodes

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = needs(role("slurm_controller"))
USER = "daemon"
"""An account of every Debian without rights of its own; root may not submit jobs."""
SECONDS = 120
"""How long a job may wait behind others and run."""
VERSION = {"12": "v0.0.38", "13": "v0.0.42"}
"""Of the REST API, by release of Debian."""


@pytest.fixture(scope="module")
def controller(site: Site, request: pytest.FixtureRequest) -> SiteHost:
    """The host of slurmctld."""
    outputs: CloudOutputs | None = request.getfixturevalue("context").cloud_outputs
    return hosts_with("slurm_controller", site, outputs)[0]


def test_slurm_runs_jobs_on_every_node(site: Site, controller: SiteHost, site_host: Callable[[str], Host]) -> None:
    """Every Slurm node runs a job of an unprivileged user, and the job is in the log of completed jobs."""
    connection = site_host(controller.name)
    nodes = slurm_nodes(site)
    for node in nodes:
        partition = next(p.name for p in partitions(site) if node.name in partition_hosts(p, nodes))
        cards = ",".join(f"{site.accelerators[kind].category}:{kind}:1" for kind in node.accelerators)
        submit = f"sbatch --wait --parsable --chdir=/tmp --output=/dev/null --partition={partition}"
        submit += f" --nodelist={node.name}"
        submit += f" --gres={cards}" if cards else ""
        number = connection.check_output(f"timeout {SECONDS} runuser -u {USER} -- {submit} --wrap true").strip()
        # slurmctld writes the line when the node has cleaned up, sbatch may end before
        seek = f"grep 'JobId={number} ' /var/log/slurm/completed_jobs.log | tail -1 | grep ."
        line = connection.check_output(f"timeout {SECONDS} bash -c {shlex.quote(f'until {seek}; do sleep 0.2; done')}")
        assert f"NodeList={node.name} " in line, line
        assert "JobState=COMPLETED" in line, line


def test_slurmrestd_requires_a_token(site: Site, controller: SiteHost, site_host: Callable[[str], Host]) -> None:
    """The REST API of Slurm refuses requests without a token and over HTTP, and accepts one that slurmctld issued."""
    connection = site_host(controller.name)
    release = connection.check_output(". /etc/os-release && echo $VERSION_ID").strip()
    address = f"slurm.{site.domain}:{port('slurm_controller', 'slurmrestd')}/slurm/{VERSION[release]}/ping"
    curl = "curl -sS -o /dev/null -w '%{http_code}'"
    assert connection.check_output(f"{curl} https://{address}") == "401"
    assert connection.run(f"{curl} http://{address}").stdout != "200", "without TLS"
    # the token stays on the host: curl reads it from a file descriptor
    header = f"scontrol token username={USER} lifespan=60 | sed 's/^SLURM_JWT=/X-SLURM-USER-TOKEN: /'"
    user = f"-H 'X-SLURM-USER-NAME: {USER}'"
    assert (
        connection.check_output(f"bash -c {shlex.quote(f'{curl} {user} -H @<({header}) https://{address}')}") == "200"
    )
