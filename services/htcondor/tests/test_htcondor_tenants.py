"""Members of one tenant attack the queue of another with valid tokens, at the real daemons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .real_pool import DOMAIN, RealPool

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("htcondor-pool")]
SECRET = "open-sesame"  # of the test
OURS, THEIRS = "research", "ml-team"
ADA, EVE = f"{OURS}.ada", f"{THEIRS}.eve"
JOB = f"arguments = -c true {SECRET}\nenvironment = KEY={SECRET}\nrequirements = false\n"
STATUS = ("-any", "-schedd", "-submitters", "-negotiator", "-master", "-collector", "-startd", "-generic")
BINDINGS = """
import sys, classad2, htcondor2
version = "$CondorVersion: 23.9.6 2026-07-12 $"
made_up = {"MyAddress": sys.argv[1], "Name": "x", "Machine": "x", "MyType": "Scheduler", "CondorVersion": version}
schedd = htcondor2.Schedd(classad2.ClassAd(made_up))
print(eval(sys.argv[2]))
"""
ACTIONS = {
    "query": "schedd.query()",
    "summary": "schedd.query(opts=htcondor2.QueryOpt.SummaryOnly)",
    "history": "list(schedd.history('true', []))",
    "epochs": "list(schedd.jobEpochHistory('true', []))",
    "remove": "schedd.act(htcondor2.JobAction.Remove, 'true')",
    "edit": "schedd.edit('true', 'JobPrio', '1')",
    "submit": "schedd.submit(htcondor2.Submit({'executable': '/bin/true'}), spool=True).cluster()",
    "retrieve": "schedd.retrieve('true')",
}


@pytest.fixture
def job(real_pool: RealPool) -> Iterator[str]:
    """Ada's job with a secret, and one of hers that has left the queue."""
    past = real_pool.submit(JOB, ADA)
    real_pool.output("condor_rm", past, user=ADA)
    cluster = real_pool.submit(JOB, ADA)
    yield cluster
    assert real_pool.ad(cluster, "ClusterId", "JobPrio", "Owner") == [cluster, "0", ADA]
    real_pool.output("condor_rm", cluster, user=ADA)


def addresses(real_pool: RealPool) -> list[str]:
    """Of the schedd of Ada's tenant: its port, and behind the shared one."""
    shared = real_pool.output("condor_status", "-schedd", f"{OURS}@{DOMAIN}", "-af", "MyAddress").strip()
    (argument,) = (
        line for line in real_pool.output("condor_config_val", "SCHEDD_0_ARGS").splitlines() if " -p " in line
    )
    return [f"<127.0.0.1:{argument.split()[-1]}>", shared]


def test_members_of_the_tenant_see_their_jobs(real_pool: RealPool, job: str) -> None:
    """Without a name or an address: the configuration has it, as in notebooks."""
    for user in (ADA, f"{OURS}.bob"):
        text = real_pool.output("condor_q", "-all", "-long", job, user=user)
        assert text.count(SECRET) >= 2
    assert SECRET in real_pool.output("condor_history", "-long", user=ADA)
    for address in addresses(real_pool):
        status, text = real_pool.run("python3", "-c", BINDINGS, address, ACTIONS["query"], user=ADA)
        assert (status, SECRET in text) == (0, True), text


@pytest.mark.parametrize(
    "command",
    [
        ("condor_q", "-all", "-long"),
        ("condor_q", "-global", "-all", "-long"),
        ("condor_q", "-name", f"{OURS}@{DOMAIN}", "-all", "-long"),
        ("condor_rm", "-all"),
        ("condor_rm", "-constraint", "true"),
        ("condor_hold", "-all"),
        ("condor_release", "-all"),
        ("condor_vacate_job", "-all"),
        ("condor_qedit", "-constraint", "true", "JobPrio", "1"),
        ("condor_prio", "-p", "1", "-a"),
        ("condor_transfer_data", "-all"),
        ("condor_history", "-name", f"{OURS}@{DOMAIN}", "-long"),
        ("condor_userprio", "-allusers"),
        ("condor_config_val", "-schedd", "-dump"),
        *(("condor_status", kind, "-long") for kind in STATUS),
    ],
    ids=" ".join,
)
def test_another_tenants_member_sees_and_changes_nothing(
    real_pool: RealPool, job: str, command: tuple[str, ...]
) -> None:
    """At the schedd, the collector and the negotiator, with commands of HTCondor."""
    _, text = real_pool.run(*command, user=EVE, at=OURS)
    for word in (SECRET, ADA, "AuthTokenSubject"):
        assert word not in text, text


def test_another_tenants_member_submits_nothing(real_pool: RealPool, job: str) -> None:
    files = {"job.sub": "executable = /bin/true\nqueue"}
    status, text = real_pool.run("condor_submit", "-spool", "job.sub", user=EVE, at=OURS, files=files)
    assert status != 0
    assert "DENIED" in text


@pytest.mark.parametrize("action", ACTIONS)
def test_made_up_addresses_help_no_one(real_pool: RealPool, job: str, action: str) -> None:
    """With HTCondor's client for Python, at the schedd's port and behind the shared one."""
    for address in addresses(real_pool):
        status, text = real_pool.run("python3", "-c", BINDINGS, address, ACTIONS[action], user=EVE)
        assert status != 0, text
        assert SECRET not in text
    status, text = real_pool.run("condor_rm", "-addr", addresses(real_pool)[0], "-all", user=EVE)
    assert status != 0
    assert "DENIED" in text


@pytest.mark.parametrize("user", ["ml.eve", "research-2.eve", "research", "monitor", "execute"])
def test_names_that_resemble_the_tenants_are_others(real_pool: RealPool, job: str, user: str) -> None:
    """The monitor reads, and does nothing else."""
    status, text = real_pool.run("condor_q", "-all", "-long", user=user, at=OURS)
    assert (SECRET in text) == (user == "monitor"), text
    status, text = real_pool.run("condor_rm", "-all", user=user, at=OURS)
    assert status != 0
    assert "DENIED" in text


def test_the_other_tenant_has_its_own_queue(real_pool: RealPool, job: str) -> None:
    """With its own jobs only."""
    own = real_pool.submit("requirements = false", EVE)
    assert real_pool.output("condor_q", "-all", "-af", "Owner", user=EVE).split() == [EVE]
    real_pool.output("condor_rm", own, user=EVE)


def test_each_tenants_schedd_is_asked(real_pool: RealPool) -> None:
    """By the command of `strata status` and of the pod's probe."""
    real_pool.output("condor-ping-schedds")
    status, text = real_pool.run("env", "STRATA_TENANTS=research,no-such", "condor-ping-schedds")
    assert status == 1
    assert "no answer of the schedds of no-such" in text
