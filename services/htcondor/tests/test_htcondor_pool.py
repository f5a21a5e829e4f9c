"""The real HTCondor with the chart's configuration: jobs, queues, and what members cannot make it do."""

from __future__ import annotations

import pytest

from .real_pool import ANOTHER, COMPLETED, DOMAIN, GROUP, HELD, KEY, RealPool

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("htcondor-pool")]
EVE = "research.eve"
SECRET = "/condor/secrets/keys/POOL"
FORGED = "/condor/spool/forged"
EDIT = (
    "import sys; from strata_condor.explanations import editor; "
    "editor(sys.argv[1])('research', [sys.argv[2], '9.9'], sys.argv[3])"
)
NOT_SPOOLED = "-disable"
"""Of condor_submit: the job does not start with its files in the spool."""
FILES = "the access point does not see your files"


def shell(script: str) -> str:
    """The line of a job that runs a script, without quotes and $(), which is HTCondor's."""
    return f"arguments = \"-c '{script}'\"\n"


def test_the_spool_is_not_cleaned(real_pool: RealPool) -> None:
    """The master would take the tenants' queues and the revocations for what was left behind; here each second."""
    assert "Preen" not in real_pool.output("cat", "/condor/log/MasterLog")


def test_a_job_resumes_where_its_checkpoint_was(real_pool: RealPool) -> None:
    """It is evicted in the second part, and ends once, on another execution point, from the checkpoint of the first."""
    script = (
        "if ! test -e saved; then hostname > saved; exit 85; fi; "
        "if test `cat saved` = `hostname`; then touch /tmp/second-part; sleep 3600; fi; echo resumed with `cat given`"
    )
    checkpoint = "checkpoint_exit_code = 85\ntransfer_checkpoint_files = saved\n"
    more = f"{checkpoint}transfer_input_files = given\noutput = out\nlog = log"
    cluster = real_pool.submit(shell(script) + more, given="its input")
    real_pool.until_exists("/tmp/second-part")  # noqa: S108  # of the execution point
    real_pool.evict()
    real_pool.until(cluster, COMPLETED)
    assert real_pool.ad(cluster, "ExitCode", "NumShadowStarts", "AcctGroup") == ["0", "2", "research"]
    real_pool.output("condor_transfer_data", cluster, user="research.ada")
    assert real_pool.output("cat", "out") == "resumed with its input\n"


def test_a_tenant_with_a_dash_has_its_quota(real_pool: RealPool) -> None:
    """HTCondor's settings have no dashes in their names; the tenant keeps its own."""
    cluster = real_pool.submit(shell("true"), "ml-team.ada_b-c")
    values = real_pool.ad(cluster, "AcctGroup", "AcctGroupUser", "AccountingGroup", at="ml-team")
    assert values == ["ml-team", "ada_b-c", "ml_team.ada_b-c"]
    assert real_pool.output("condor_config_val", "GROUP_QUOTA_ml_team").strip() == "4"
    with pytest.raises(AssertionError, match="the request is more than the tenant's quota of batch jobs"):
        real_pool.submit("request_cpus = 5", "ml-team.ada")
    real_pool.output("condor_rm", "-all", at="ml-team")


def test_a_job_takes_the_execution_point_of_a_later_queue(real_pool: RealPool) -> None:
    """The job of the queue batch is evicted by one of interactive, runs again after it, and ends once."""
    batch = real_pool.submit(shell("if mkdir /tmp/batch-began; then sleep 3600; fi"))
    real_pool.until_exists("/tmp/batch-began")  # noqa: S108  # of the execution point
    interactive = real_pool.submit(shell("test -d /tmp/batch-began") + '+StrataQueue = "interactive"', "research.carol")
    for cluster in (interactive, batch):
        real_pool.until(cluster, COMPLETED)
    assert real_pool.ad(interactive, "ExitCode", "NumShadowStarts", "StrataQueueRank") == ["0", "1", "3"]
    assert real_pool.ad(batch, "ExitCode", "NumShadowStarts", "StrataQueue") == ["0", "2", "batch"]
    with pytest.raises(AssertionError, match="the pool has no queue night; its queues: interactive, dask, batch"):
        real_pool.submit('+StrataQueue = "night"')


def test_a_job_runs_in_the_image_that_it_names(real_pool: RealPool) -> None:
    """In a Debian with another C library, without HTCondor: as a user of its own, with what the image sets."""
    script = shell(". /etc/os-release; echo $VERSION_ID; id -un; echo $FROM_THE_IMAGE; cat given")
    more = 'transfer_input_files = given\noutput = out\n+StrataImage = "debian"'
    cluster = real_pool.submit(script + more, given="its input")
    try:
        real_pool.evict(ANOTHER)
        real_pool.until(cluster, COMPLETED)
        real_pool.output("condor_transfer_data", cluster, user="research.ada")
        assert real_pool.output("cat", "out").split("\n") == ["12", "slot1", "1", "its input", ""]
        other = real_pool.submit(shell("true"))
        assert real_pool.ad(other, "StrataImage") == ["htcondor"]
    finally:
        real_pool.evict()
    real_pool.until(other, COMPLETED)
    with pytest.raises(AssertionError, match="the pool has no image windows; its images: debian, notebook, htcondor"):
        real_pool.submit('+StrataImage = "windows"')


def test_a_job_writes_to_the_folder_of_its_tenant(real_pool: RealPool) -> None:
    """As a user of its own, in the tenant's group, which the folder's files have. HTCondor sets the umask to 022."""
    write = "umask 002; mkdir new; echo 1 > new/file; stat -c %g:%a new new/file"
    cluster = real_pool.submit(shell(f"id -G; umask; cd /shared/research; {write}") + "output = out\nerror = err")
    real_pool.until(cluster, COMPLETED)
    real_pool.output("condor_transfer_data", cluster, user="research.ada")
    assert real_pool.output("sh", "-c", "cat out err").split("\n") == [
        f"10002 {GROUP}", "0022", f"{GROUP}:2775", f"{GROUP}:664", "",
    ]  # fmt: skip


@pytest.mark.parametrize(("asked", "lease"), [("", "600"), ("job_lease_duration = 3600", "3600")])
def test_a_job_of_a_lost_execution_point_is_idle_again_after_its_lease(
    real_pool: RealPool, asked: str, lease: str
) -> None:
    """10 minutes, unless the job requests another one; clients have HTCondor's default, as in notebooks."""
    assert real_pool.output("condor_config_val", "JOB_DEFAULT_LEASE_DURATION") == "2400\n"
    cluster = real_pool.submit(f"{shell('true')}{asked}")
    assert real_pool.ad(cluster, "JobLeaseDuration") == [lease]
    for interval in ("ALIVE_INTERVAL", "STARTER_UPDATE_INTERVAL"):
        # the rest of the lease is left for the access point to restart
        assert int(real_pool.output("condor_config_val", interval)) <= int(lease) / 6


def test_a_dag_is_refused(real_pool: RealPool) -> None:
    files = {"flow.dag": "JOB A a.sub", "a.sub": "executable = /bin/true\nqueue"}
    status, text = real_pool.run("condor_submit_dag", "-force", "flow.dag", user=EVE, files=files)
    assert status != 0
    assert "this pool runs no DAGMan: it would have the access point's rights" in text


@pytest.mark.parametrize(
    ("description", "options", "message"),
    [
        ("universe = local", (), "the vanilla universe only"),
        (f"transfer_input_files = {SECRET}", (NOT_SPOOLED,), FILES),
        (f'+SpooledOutputFiles = "{SECRET}"', (), FILES),
        (f'+TransferOutput = "{SECRET}"', (), FILES),
        ('+TransferOutput = "a, ../../../../../secrets/keys/POOL"', (), FILES),
        (f'+DAGManNodesLog = "{FORGED}"', (), FILES),
    ],
)
def test_jobs_with_the_access_points_files_are_refused(
    real_pool: RealPool, description: str, options: tuple[str, ...], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        real_pool.submit(description, EVE, *options)


def test_a_job_in_the_queue_reaches_no_files_of_the_access_point(real_pool: RealPool) -> None:
    """Neither by editing the job nor through its shadow."""
    fetch = f"/usr/libexec/condor/condor_chirp fetch {SECRET} found; cat found"
    cluster = real_pool.submit(f"{shell(fetch)}+WantIOProxy = true\noutput = stolen\nlog = {FORGED}", EVE)
    real_pool.until(cluster, COMPLETED)
    # looked at before the client, which runs as the same user here, writes its own files
    assert real_pool.run("test", "-e", FORGED)[0] != 0
    names = "Iwd Cmd In Out Err UserLog DAGManNodesLog TransferInput TransferOutput SpooledOutputFiles x509userproxy"
    for name in (*names.split(), "JobUniverse", "StrataQueueRank"):
        status, text = real_pool.run("condor_qedit", cluster, name, f'"{SECRET}"', user=EVE)
        assert status != 0, f"{name}: {text}"
    real_pool.output("condor_transfer_data", cluster, user=EVE)
    assert KEY not in real_pool.output("sh", "-c", "cat * 2>&1")


def test_a_job_that_only_claims_to_be_spooled_reaches_no_files(real_pool: RealPool) -> None:
    claims = f'hold = true\n+HoldReasonCode = 16\n+UserLog = "{FORGED}-2"\ntransfer_input_files = {SECRET}\n'
    cluster = real_pool.submit(shell("cat POOL") + claims, EVE, NOT_SPOOLED)
    real_pool.run("condor_qedit", cluster, "HoldReasonCode", "1", user=EVE)
    real_pool.run("condor_release", cluster, user=EVE)
    real_pool.until(cluster, HELD)
    assert real_pool.run("test", "-e", f"{FORGED}-2")[0] != 0


def test_a_job_shows_what_it_waits_for(real_pool: RealPool) -> None:
    """As the access point's server writes it; the job's owner reads it."""
    cluster, text = real_pool.submit(shell("true") + "requirements = false"), 'the quota of "research"'
    try:
        real_pool.output("python3", "-c", EDIT, DOMAIN, f"{cluster}.0", text)
        read = real_pool.output("condor_q", cluster, "-af", "StrataWaitsFor", user="research.ada")
        assert read.strip() == text
    finally:
        real_pool.output("condor_rm", cluster)
