"""A hypervisor leaves only when no instance that stays is on it."""

from __future__ import annotations

import pytest

from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.ansible import PlaybookResult
from strata.engine.changes.disruption import remember, warnings
from strata.layers import Layer
from strata.observe.facts import CloudFacts, ServerFacts
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata_lab import hypervisors
from strata_lab.hypervisors import (
    HypervisorOccupied,
    forget_emptied,
    leaving_hypervisors,
    occupied_hypervisors,
    require_empty,
)

GONE = "compute-1"


@pytest.fixture
def context(context: SiteContext) -> SiteContext:
    """The lab, up with two hypervisors, of which its file no longer has the first; `spare-1` leaves too."""
    remember(context, list(Layer))
    before = context.site
    assert before.cloud is not None
    names = [*(i.name for i in before.cloud.instances), "spare-1"]
    CloudOutputs(
        instances={n: InstanceOutput(id=n, name=n, address="10.77.0.9", flavor="cpu.small", roles=()) for n in names},
        networks={},
    ).save(context.paths)
    left = tuple(h for h in before.cloud.hypervisors if h.name != GONE)
    cloud = before.cloud.model_copy(update={"hypervisors": left})
    return SiteContext(before.model_copy(update={"cloud": cloud}), context.site_file, context.paths)


def nova_says(monkeypatch: pytest.MonkeyPatch, hypervisors_up: tuple[str, ...], **places: str) -> None:
    servers = {
        name.replace("_", "-"): ServerFacts(id=name, status="ACTIVE", hypervisor=place)
        for name, place in places.items()
    }
    facts = CloudFacts(servers=servers, hypervisors=dict.fromkeys(hypervisors_up, "up"))
    monkeypatch.setattr(hypervisors, "observe_cloud", lambda _: facts)


def test_the_plan_shows_that_it_goes(context: SiteContext) -> None:
    assert leaving_hypervisors(context) == [GONE]
    assert f"hypervisor {GONE}: removed, once no instance is on it" in warnings(
        context, lifecycle_of(context), list(Layer)
    )
    assert not [w for w in warnings(context, lifecycle_of(context), [Layer.PLATFORM]) if GONE in w]


@pytest.mark.parametrize("kept", ["worker-1", "by-hand-1"])
def test_an_instance_that_stays_keeps_it(kept: str, context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    nova_says(monkeypatch, (GONE,), **{kept.replace("-", "_"): GONE, "spare_1": GONE, "gpu_worker_1": "compute-gpu-1"})
    assert occupied_hypervisors(context) == {GONE: (kept,)}
    with pytest.raises(HypervisorOccupied, match=rf"{GONE}: {kept}\n") as refused:
        require_empty(context)
    assert f"openstack server migrate --wait {kept}" in (refused.value.fix or "")


def test_an_instance_that_leaves_too_goes_first_and_then_the_hypervisor(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run_playbook(_: SiteContext, name: str, progress: object) -> PlaybookResult:
        assert progress
        ran.append(name)
        return PlaybookResult(changed=1)

    monkeypatch.setattr("strata_lab.hypervisors.run_playbook", run_playbook)
    monkeypatch.setattr("strata.engine.playbook_state.remember", lambda *_: None)
    nova_says(monkeypatch, (GONE, "compute-gpu-1"), spare_1=GONE)
    require_empty(context)
    assert forget_emptied(context, Silent()) == 1
    nova_says(monkeypatch, ("compute-gpu-1",))
    assert forget_emptied(context, Silent()) == 0
    assert ran == ["openstack"]
