"""Faults of an existing cloud under the real Pulumi engine and OpenStack provider: messages, and what resumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.stacks.pulumi import stack_settings_file

from .conftest import SITE, Place
from .small_cloud import SmallCloud, serve

UP = f"strata up {SITE} --layer cloud"
pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("adopt-contract")]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Place]:
    """The site before its first `up`."""
    try:
        with serve(SmallCloud("campus")) as cloud:
            place = Place(tmp_path, cloud)
            place.write_files()
            yield place
    finally:
        stack_settings_file("cloud", SITE).unlink(missing_ok=True)


def test_an_instance_that_is_down_is_started(fresh: Place) -> None:
    fresh.json("up", "--layer", "cloud")
    fresh.cloud.server("worker-1")["status"] = "SHUTOFF"
    fresh.json("up", "--layer", "cloud")
    assert fresh.cloud.server("worker-1")["status"] == "ACTIVE"


def test_a_quota_that_ends_half_way_is_resumed_by_the_same_command(fresh: Place) -> None:
    """Another user of the project took what the check still saw as free."""
    fresh.cloud.instance_limit = 3
    stopped = fresh.strata("up", "--layer", "cloud")
    assert stopped.returncode == 1
    assert "Quota exceeded for instances: Requested 1, but already used 3 of 3 instances (HTTP 403)" in stopped.stderr
    assert "Expected HTTP response code" not in stopped.stderr
    assert "fix: have the cloud's administrator raise the quota of the project campus" in stopped.stderr
    assert f"then run `{UP}` again: it resumes" in stopped.stderr
    assert len(fresh.cloud.servers) == 3
    made = set(fresh.cloud.servers)
    fresh.cloud.instance_limit = 100
    fresh.json("up", "--layer", "cloud")
    assert made < set(fresh.cloud.servers)
    names = sorted(s["name"] for s in fresh.cloud.servers.values())
    assert len(names) == len(set(names)) == 7


def test_credentials_that_expire_half_way_are_resumed_by_the_same_command(fresh: Place) -> None:
    fresh.cloud.expires_after_servers = 2
    stopped = fresh.strata("up", "--layer", "cloud")
    assert stopped.returncode == 1
    refusal = "keystone refuses the credentials: The request you have made requires authentication. (HTTP 401)"
    (error,) = (line for line in stopped.stderr.splitlines() if line.startswith("error:"))
    assert error.endswith(refusal)
    assert "correct the auth section of the entry campus of clouds.yaml" in stopped.stderr
    again = fresh.strata("up", "--layer", "cloud")
    assert again.returncode == 1
    assert "cloud.credentials: 'campus' — keystone refuses the entry campus of clouds.yaml" in again.stderr
    fresh.cloud.expires_after_servers = None
    fresh.json("up", "--layer", "cloud")
    names = sorted(s["name"] for s in fresh.cloud.servers.values())
    assert len(names) == len(set(names)) == 7


def test_a_flavor_that_vanished_is_named_before_anything_changes(fresh: Place) -> None:
    """Its instances run on; a new one could not be created, and the others are not touched meanwhile."""
    fresh.json("up", "--layer", "cloud")
    servers = dict(fresh.cloud.servers)
    vanished = fresh.cloud.flavors.pop("cpu.small")
    refused = fresh.strata("up", "--layer", "cloud")
    assert refused.returncode == 1
    assert "cloud.flavors[0].name: 'cpu.small' — the cloud has no such flavor" in refused.stderr
    assert "gpu.v100.1" in refused.stderr.partition("fix:")[2], "what there is"
    assert fresh.cloud.servers == servers
    fresh.cloud.flavors["cpu.small"] = vanished
    assert fresh.json("up", "--layer", "cloud", "--thorough")["changed"] == 0
