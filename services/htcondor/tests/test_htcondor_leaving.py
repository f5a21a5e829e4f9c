"""A user leaves the pool: tokens of before are void, jobs are gone, and the same name starts again."""

# ruff: noqa: PLC0415  # a fixture puts the image's package on the path

from __future__ import annotations

import json
import time

import pytest

from strata_bench.waiting import eventually

from .real_pool import DOMAIN, RealPool

SCHEDD = f"research@{DOMAIN}"


@pytest.mark.usefixtures("own_programs")
def test_revocations_are_by_subject_and_the_last_time() -> None:
    from strata_condor.leaving import revocation  # type: ignore[import-not-found]  # put on the path above

    first = revocation("", ["research.ada@x"], 10)
    text = revocation(first, ["research.ada@x", "ml-team.bob@x"], 20)
    expression = '(sub =?= "ml-team.bob@x" && iat <= 20) || (sub =?= "research.ada@x" && iat <= 20)'
    assert f"SEC_TOKEN_REVOCATION_EXPR = {expression}\n" in text
    assert "10" not in text


def query(pool: RealPool, token: str) -> tuple[int, str]:
    """A query with a token of before, without the pool's key."""
    script = (
        f"mkdir -p /tmp/old && umask 077 && printf %s '{token}' >/tmp/old/token && export"
        " _CONDOR_SEC_TOKEN_DIRECTORY=/tmp/old _CONDOR_SEC_TOKEN_SYSTEM_DIRECTORY=/nonexistent"
        " _CONDOR_SEC_PASSWORD_DIRECTORY=/nonexistent _CONDOR_SEC_TOKEN_POOL_SIGNING_KEY_FILE=/nonexistent"
        f" && condor_ping -name {SCHEDD} -type schedd WRITE"
    )
    return pool.run("sh", "-c", script)


def test_tokens_and_jobs_of_who_leaves_end(real_pool: RealPool) -> None:
    identity = f"research.gone@{DOMAIN}"
    create = ("condor_token_create", "-identity", identity, "-authz", "READ", "-authz", "WRITE")
    old = real_pool.output(*create).strip()
    assert query(real_pool, old)[0] == 0
    cluster = real_pool.submit("arguments = -c 'sleep 600'", "research.gone")
    other = real_pool.submit("arguments = -c 'sleep 600'", "research.stays")
    names = "from strata_condor.leaving import submitters; print(*sorted(submitters()))"
    expected = {"research.gone", "research.stays"}
    eventually(lambda: expected <= set(real_pool.output("python3", "-c", names).split()), 60, "who has jobs is known")
    request = json.dumps({"name": "gone", "tenants": ["research", "ml-team"], "dry_run": False})
    files = {"request.json": request}
    printed = real_pool.output("sh", "-c", "python3 -m strata_condor leave <request.json", files=files)
    assert json.loads(printed)["ended"] == ["tokens", "1 batch jobs"]
    eventually(lambda: query(real_pool, old)[0] != 0, 60, "the token of before is refused")
    # one that ran is removed first
    eventually(lambda: real_pool.ad(cluster, "JobStatus") == [""], 60, "the job is gone")
    assert real_pool.ad(other, "JobStatus") != [""]
    time.sleep(1.1)
    assert query(real_pool, real_pool.output(*create).strip())[0] == 0, "the name may get tokens again"
    real_pool.output("condor_rm", "-name", SCHEDD, "-constraint", 'Owner == "research.stays"')
