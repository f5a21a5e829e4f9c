"""A machine that shared the virtual address gives it up when it leaves the site."""

from __future__ import annotations

import subprocess
from ipaddress import ip_address
from pathlib import Path

import pytest

from strata.access import ssh
from strata.access.ssh import Unreachable
from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine import machines, up_steps
from strata.engine.changes.disruption import Approval, warnings
from strata.engine.virtual_address_members import VirtualAddressMembers, add_members, leaving_members, remember_members
from strata.errors import UserError
from strata.layers import Layer, StepResult
from strata.models.hosts import LoadBalancer, Machine
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.host_list import LOAD_BALANCER
from strata.site_file.inventories import find_site

EDGES = {"edge-1": "198.18.13.31", "edge-2": "198.18.13.32"}


def balanced(context: SiteContext, addresses: dict[str, str], *, other: str = "") -> SiteContext:
    """The site with these load balancers alone; the other one is a machine with another role."""
    hosts = context.site.hosts
    edges = tuple(
        Machine(name=name, address=ip_address(address), roles=("registry" if name == other else LOAD_BALANCER,))
        for name, address in addresses.items()
    )
    section = LoadBalancer(virtual_address=ip_address("198.18.13.30"))
    changed = hosts.model_copy(update={"machines": (*hosts.machines[1:4], *edges), "load_balancer": section})
    return SiteContext(context.site.model_copy(update={"hosts": changed}), context.site_file, context.paths)


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    """Both are recorded."""
    metal = SiteContext.load(find_site("metal"))
    metal.paths.create()
    changed = balanced(metal, EDGES)
    add_members(changed)
    return changed


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where keepalived is stopped."""
    targets: list[str] = []

    def run_ssh(given: SiteContext, address: str, command: str, **_: object) -> subprocess.CompletedProcess[str]:
        assert "systemctl disable --now keepalived" in command
        targets.append(ssh.ssh_line(given, address)[0][-1])
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(machines, "run_ssh", run_ssh)
    return targets


def recorded(context: SiteContext) -> dict[str, str]:
    """Address to name."""
    record = VirtualAddressMembers.load(context.paths)
    assert record is not None
    return record.names


@pytest.mark.parametrize("left", [{"edge-1": EDGES["edge-1"]}, {**EDGES, "edge-2": "198.18.13.99"}])
def test_keepalived_is_stopped_on_a_machine_that_is_removed_or_moved(
    context: SiteContext, reached: list[str], left: dict[str, str]
) -> None:
    assert machines.stop_leaving_members(context, Silent()) == (0, [])
    changed = balanced(context, left)
    (warning,) = warnings(changed, lifecycle_of(changed), [Layer.HOSTS])
    assert warning.startswith("load balancer edge-2 (198.18.13.32): keepalived is stopped")
    assert warnings(changed, lifecycle_of(changed), [Layer.PLATFORM]) == []
    assert machines.stop_leaving_members(changed, Silent()) == (1, [])
    assert reached == ["ops@198.18.13.32"]
    assert recorded(changed) == {address: name for name, address in left.items()}
    assert leaving_members(changed) == {}


def test_one_that_only_loses_the_role_is_left_to_the_playbook_and_stays_recorded_until_then(
    context: SiteContext, reached: list[str]
) -> None:
    changed = balanced(context, EDGES, other="edge-2")
    assert machines.stop_leaving_members(changed, Silent()) == (0, [])
    assert reached == []
    # the playbook failed, and the machine leaves altogether
    assert list(leaving_members(balanced(context, {"edge-1": EDGES["edge-1"]})).values()) == ["edge-2"]
    remember_members(changed)
    assert recorded(changed) == {"198.18.13.31": "edge-1"}


@pytest.mark.parametrize("silence", ["timeout", "refused"])
def test_a_machine_that_does_not_respond_is_named_and_passed_over(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch, silence: str
) -> None:
    def run_ssh(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        if silence == "timeout":
            raise Unreachable("no answer within 60 s")
        return subprocess.CompletedProcess([], 255, "", "ssh: connect to host 198.18.13.32 port 22: No route to host\n")

    order: list[str] = []

    def playbook(_: object) -> StepResult:
        order.append("playbook")
        assert recorded(context)["198.18.13.32"] == "edge-2"
        return StepResult(1, "60 tasks ok")

    monkeypatch.setattr(machines, "run_ssh", run_ssh)
    monkeypatch.setattr(up_steps, "playbook_step", lambda *_: playbook)
    monkeypatch.setattr(up_steps, "wait_for_ssh", lambda *_: order.append("SSH"))
    changed = balanced(context, {"edge-1": EDGES["edge-1"]})
    result = up_steps.hosts_step(changed, False, Approval())(Silent())
    assert order == ["SSH", "playbook"]
    assert result.changed == 1
    said = "no answer within 60 s" if silence == "timeout" else "No route to host"
    assert result.detail.startswith("60 tasks ok; edge-2 (198.18.13.32) does not respond (")
    assert said in result.detail
    assert leaving_members(changed) == {}


def test_a_machine_that_responds_must_stop_it(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = subprocess.CompletedProcess([], 1, "", "sudo: a password is required\n")
    monkeypatch.setattr(machines, "run_ssh", lambda *_, **__: refusal)
    changed = balanced(context, {"edge-1": EDGES["edge-1"]})
    with pytest.raises(UserError, match=r"cannot be stopped on edge-2 \(198.18.13.32\).*: sudo: a password"):
        machines.stop_leaving_members(changed, Silent())
    assert list(leaving_members(changed)) == ["198.18.13.32"]


def test_a_site_without_a_virtual_address_has_no_record(state_directory: Path) -> None:
    metal = SiteContext.load(find_site("metal"))
    metal.paths.create()
    assert machines.stop_leaving_members(metal, Silent()) == (0, [])
    remember_members(metal)
    assert VirtualAddressMembers.load(metal.paths) is None
