"""What a change would disrupt, and who must have allowed it."""

from __future__ import annotations

from typing import Any

import pytest

from strata.engine.changes.difference import step_lines
from strata.engine.changes.disruption import (
    Applied,
    Approval,
    ApprovalNeeded,
    cloud_digest,
    disruptions,
    file_changes,
    leaving_nodes,
    remember,
    remember_cloud,
    require_approval,
)
from strata.engine.runner import RunReport, StepFailed
from strata.engine.up import run_up
from strata.layers import Layer
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.stacks.pulumi import PulumiResult

PARENT = "urn:pulumi:lab::strata-cloud::strata:cloud:Instance$openstack:compute/instance:Instance::"


def step(operation: str, name: str, *diffs: str) -> dict[str, Any]:
    """As the engine shows it."""
    return {"op": operation, "urn": PARENT + name, "type": "openstack:compute/instance:Instance", "diffs": list(diffs)}


def standing(context: SiteContext, **roles: tuple[str, ...]) -> None:
    """Instances that the cloud layer made."""
    instances = {
        name.replace("_", "-"): InstanceOutput(
            id=name, name=name.replace("_", "-"), address="10.77.0.9", flavor="cpu.small", roles=instance_roles
        )
        for name, instance_roles in roles.items()
    }
    CloudOutputs(instances=instances, networks={}).save(context.paths)


@pytest.mark.parametrize(
    ("given", "effect"),
    [
        (step("replace", "worker-1", "networks"), "replaced"),
        (step("update", "worker-1", "imageId"), "rebuilt"),
        (step("update", "worker-1", "flavorId"), "resized"),
    ],
)
def test_each_effect_is_reported(given: dict[str, Any], effect: str, context: SiteContext) -> None:
    (disruption,) = disruptions(context, [given])
    assert disruption.effect == effect
    assert disruption.text().startswith(f"worker-1 is {effect}")


def test_metadata_and_new_instances_disrupt_no_one(context: SiteContext) -> None:
    steps = [step("update", "worker-1", "metadata"), step("create", "gpu-worker-1"), step("delete", "gone-1")]
    assert disruptions(context, steps) == []


def test_yes_covers_workers_and_never_a_host_with_data(context: SiteContext) -> None:
    worker, services = disruptions(context, [step("replace", "worker-1"), step("replace", "services-1")])
    yes = Approval(everything=True)
    assert yes.covers(worker)
    assert not yes.covers(services)
    assert Approval(frozenset({"services-1"})).covers(services)
    assert "nfs_server, postgresql" in services.text()
    (resized,) = disruptions(context, [step("update", "services-1", "flavorId")])
    assert not yes.covers(resized)  # its servers stop
    assert Approval(frozenset({"services-1"})).covers(resized)


def test_a_resize_loses_nothing_and_a_question_will_do(context: SiteContext) -> None:
    resizes = disruptions(context, [step("update", "services-1", "flavorId")])
    assert ApprovalNeeded(resizes, "lab").askable
    assert not ApprovalNeeded(disruptions(context, [step("replace", "services-1")]), "lab").askable


def test_a_preview_is_asked_for_only_where_something_changed(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def preview(program: str, *_: object, **__: object) -> PulumiResult:
        asked.append(program)
        return PulumiResult(0, 0, 0, 0, 0.0, {}, [step("replace", "worker-1", "networks")])

    monkeypatch.setattr("strata.stacks.pulumi.preview", preview)
    assert require_approval(context, Approval(), Silent()) == []  # nothing exists yet
    standing(context, worker_1=("kube_node",))
    with pytest.raises(ApprovalNeeded, match="worker-1 is replaced") as refused:
        require_approval(context, Approval(), Silent())
    assert refused.value.exit_status == 4
    assert "--replace worker-1" in (refused.value.fix or "")
    assert len(require_approval(context, Approval(everything=True), Silent())) == 1
    remember_cloud(context)
    assert require_approval(context, Approval(), Silent()) == []
    assert asked == ["cloud", "cloud"]


def test_nodes_that_leave_are_known(context: SiteContext) -> None:
    standing(context, worker_1=("kube_node",), worker_9=("kube_node",), plain_1=("registry",))
    assert leaving_nodes(context) == ["worker-9"]


def test_an_edit_is_reported_by_its_path(context: SiteContext) -> None:
    assert file_changes(context) == []
    remember(context, list(Layer))
    assert file_changes(context) == []
    applied = Applied.load(context.paths)
    assert applied is not None
    applied.sections["cloud"]["project"]["quota"]["cores"] = 8
    del applied.sections["cloud"]["instances"][0]
    applied.save(context.paths)
    changes = {c.path: (c.before, c.now) for c in file_changes(context)}
    assert changes["cloud.project.quota.cores"] == ("8", "40")
    assert changes["cloud.instances.services-1"][0] == "none"
    assert len(changes) == 2


def test_the_digest_follows_what_the_cloud_is_made_of(context: SiteContext) -> None:
    assert context.site.cloud is not None
    more = context.site.cloud.model_copy(update={"instances": context.site.cloud.instances[:3]})
    other = SiteContext(context.site.model_copy(update={"cloud": more}), context.site_file, context.paths)
    assert cloud_digest(other) != cloud_digest(context)


def test_the_plan_names_resources_and_what_differs() -> None:
    steps = [step("replace", "worker-1", "networks", "networks"), step("create", "worker-2"), step("same", "x")]
    assert step_lines(steps) == ["replace instance worker-1 (networks)", "create instance worker-2"]


class Steps:
    """A run whose cloud step needs approval."""

    def __init__(self, context: SiteContext) -> None:
        self.found = disruptions(context, [step("replace", "worker-1")])
        self.runs = 0

    def run(self, approval: Approval) -> RunReport:
        self.runs += 1
        refused = [disruption for disruption in self.found if not approval.covers(disruption)]
        if refused:
            raise StepFailed("step cloud failed") from ApprovalNeeded(refused, "lab")
        return RunReport()


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_the_question_decides(answer: bool, context: SiteContext) -> None:
    steps = Steps(context)
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return answer

    def go() -> RunReport:
        return run_up(context, list(Layer), remove=(), approval=Approval(), run=steps.run, ask=ask)

    if answer:
        go()
        assert steps.runs == 2
        assert Applied.load(context.paths) is not None
    else:
        with pytest.raises(ApprovalNeeded):
            go()
        assert Applied.load(context.paths) is None
    assert len(asked) == 1
    assert "worker-1 is replaced" in asked[0]


def test_without_a_terminal_it_is_refused(context: SiteContext) -> None:
    steps = Steps(context)
    with pytest.raises(ApprovalNeeded):
        run_up(context, list(Layer), remove=(), approval=Approval(), run=steps.run, ask=None)
    assert steps.runs == 1
