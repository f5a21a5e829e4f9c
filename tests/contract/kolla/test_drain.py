"""Emptying a hypervisor: openstacksdk against a nova in memory; what it sent, nova's own schemas accept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import openstack
import pytest
from openstack.connection import Connection

from strata.errors import UserError
from strata.installers.kolla import drain as module
from strata.installers.kolla.drain import REASON, confirm_migrated, drain, enable, require_movable
from strata.progress import Silent

from .rendering import HERE
from .small_nova import Instance, Request, SmallNova, serve

DISABLED = {"status": "disabled", "disabled_reason": REASON}
LIVE = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
COLD = [{"migrate": None}, {"confirmResize": None}]


@pytest.fixture
def nova(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallNova]:
    """Two hypervisors; gpu01 is to be emptied."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    with serve(SmallNova("gpu01", "c01")) as small_nova:
        yield small_nova


@pytest.fixture
def connection(nova: SmallNova) -> Connection:
    """To it, without a keystone."""
    return openstack.connection.Connection(auth_type="none", auth={"endpoint": nova.url})


def schema_of(request: Request) -> tuple[str, str, dict[str, str], object] | None:
    """The request for nova_accepts.py; None for one without schema."""
    path = request.path.strip("/")
    if request.method == "POST":
        name = next(iter(request.body))
    elif request.method == "PUT":
        name = "PUT os-services"
    elif path in ("os-services", "servers/detail", "os-migrations"):
        name = f"GET {path}"
    else:
        return None
    return name, request.microversion, request.query, request.body


def test_instances_leave_and_nova_accepts_the_requests(
    nova: SmallNova, connection: Connection, openstack_python: Path
) -> None:
    nova.add(Instance("running", "gpu01"))
    nova.add(Instance("off", "gpu01", status="SHUTOFF", alias="v100:1"))
    nova.add(Instance("paused", "gpu01", status="PAUSED"))
    nova.add(Instance("elsewhere", "c01"))
    assert require_movable(connection, "gpu01", "why", "again") == ["running", "off", "paused"]
    drain(connection, "gpu01", Silent())
    off = [("off", body) for body in COLD]
    assert nova.writes == [("gpu01", DISABLED), ("running", LIVE), *off, ("paused", LIVE)]
    assert {instance.name: instance.status for instance in nova.instances if instance.host == "c01"} == {
        **{"running": "ACTIVE", "off": "SHUTOFF", "paused": "PAUSED", "elsewhere": "ACTIVE"}
    }
    confirm_migrated(connection, "gpu01")
    enable(connection, "gpu01", Silent())
    sent = [schema for request in nova.requests if (schema := schema_of(request))]
    assert {name for name, *_ in sent} == {
        *("os-migrateLive", "migrate", "confirmResize", "PUT os-services"),
        *("GET os-services", "GET servers/detail", "GET os-migrations"),
    }
    command = [str(openstack_python), str(HERE / "nova_accepts.py"), json.dumps(sent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == []


def test_what_cannot_be_migrated_is_named_before_anything_changes(nova: SmallNova, connection: Connection) -> None:
    nova.add(Instance("running", "gpu01"))
    nova.add(Instance("with-card", "gpu01", alias="v100:1"))
    nova.add(Instance("broken", "gpu01", status="ERROR"))
    nova.begin(nova.add(Instance("starting", "gpu01")), "spawning", "BUILD", status="ACTIVE")
    with pytest.raises(UserError) as raised:
        require_movable(connection, "gpu01", "the IOMMU is off", "run it again")
    named = raised.value.message.partition("cannot be migrated: ")[2]
    assert [part.partition(" (")[0] for part in named.split("; ")] == ["with-card", "broken"]
    assert "has the status ERROR" in named
    assert nova.writes == []


@pytest.mark.parametrize("other", [{"status": "disabled"}, {"state": "down"}])
def test_without_another_hypervisor_it_is_refused(
    nova: SmallNova, connection: Connection, other: dict[str, str]
) -> None:
    nova.services["c01"] |= other
    assert require_movable(connection, "gpu01", "why", "again") == []
    nova.add(Instance("running", "gpu01"))
    with pytest.raises(UserError, match=r"No other hypervisor is enabled and up, which could take running"):
        require_movable(connection, "gpu01", "why", "again")


@pytest.mark.parametrize("status", ["ACTIVE", "SHUTOFF"])
def test_an_instance_whose_migration_failed_is_named(nova: SmallNova, connection: Connection, status: str) -> None:
    nova.add(Instance("stuck", "gpu01", status=status, stays=True))
    with pytest.raises(UserError, match=f"stuck stays on gpu01: it has the status {status} again"):
        drain(connection, "gpu01", Silent())
    assert nova.services["gpu01"]["disabled_reason"] == REASON


def test_an_interrupted_drain_resumes(nova: SmallNova, connection: Connection) -> None:
    """One instance is on its way; of two that wait for a confirmation, one's own user resized it."""
    nova.services["gpu01"] |= DISABLED
    leaving = nova.add(Instance("leaving", "gpu01"))
    nova.begin(leaving, "migrating", "MIGRATING", host="c01", status="ACTIVE")
    for name, kind in (("moved", "migration"), ("resized", "resize")):
        instance = nova.add(Instance(name, "c01", status="VERIFY_RESIZE"))
        nova.migrations.append(
            {
                "source_compute": "gpu01",
                "status": "finished",
                "migration_type": kind,
                "instance_uuid": instance.id,
                "uuid": instance.id,
            }
        )
    confirm_migrated(connection, "gpu01")
    drain(connection, "gpu01", Silent())
    assert nova.writes == [("moved", COLD[1])]
    assert {instance.name: instance.host for instance in nova.instances} == dict.fromkeys(
        ("leaving", "moved", "resized"), "c01"
    )


def test_a_task_without_an_end_is_named(
    nova: SmallNova, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIGRATION_SECONDS", 0)
    instance = nova.add(Instance("slow", "gpu01"))
    nova.begin(instance, "migrating", "MIGRATING")
    instance.polls = 1000
    with pytest.raises(UserError, match="slow is still in the task migrating"):
        drain(connection, "gpu01", Silent())


def test_what_an_operator_disabled_stays_disabled(nova: SmallNova, connection: Connection) -> None:
    nova.services["gpu01"] |= {"status": "disabled", "disabled_reason": "hardware"}
    nova.add(Instance("running", "gpu01"))
    drain(connection, "gpu01", Silent())
    assert not enable(connection, "gpu01", Silent())
    assert nova.writes == [("running", LIVE)]


def test_a_service_is_enabled_once_it_reports(
    nova: SmallNova, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova.services["gpu01"] |= {**DISABLED, "state": "down"}
    with monkeypatch.context() as patch:
        patch.setattr(module, "START_SECONDS", 0)
        with pytest.raises(UserError, match="nova-compute on gpu01 does not report after the reboot"):
            enable(connection, "gpu01", Silent())
    assert nova.writes == []

    class Starting(Silent):
        def update(self, status: str) -> None:
            assert "waiting for nova-compute on gpu01" in status
            nova.services["gpu01"]["state"] = "up"

    assert enable(connection, "gpu01", Starting())
    assert nova.writes == [("gpu01", {"status": "enabled"})]
